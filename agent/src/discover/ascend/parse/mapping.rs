//! `npu-smi info -m`: which chip has which numbers, and `npu-smi info -l`: how many chips each NPU has.
//!
//! ```text
//!     NPU ID      Chip ID      Chip Logic ID      Chip Phy-ID      Chip Name
//!     0           0            0                  0                Ascend 910
//!     0           2            -                  -                Mcu
//! ```

/// The numbers of one chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The NPU: the card.
    pub npu: u32,
    /// The chip on it.
    pub chip: u32,
    /// Its place among the chips that are ready.
    pub logic: Option<u32>,
    /// The physical id, where the table has it.
    pub phy: Option<u32>,
}

/// The chips of `-m`, without controllers; `None` when this is no such table.
///
/// Heads are of several words with single blanks or more between them, so they are found as texts, in order.
pub fn mapping(text: &str) -> Option<Vec<Numbers>> {
    let mut columns: Option<Columns> = None;
    let mut rows: Vec<Numbers> = Vec::new();
    for line in super::lines(text) {
        let Some(columns) = columns else {
            columns = Columns::of(&line);
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().take(16).collect();
        let number = |at: Option<usize>| at.and_then(|at| words.get(at)).and_then(|w| super::id(w));
        let controller = words.last().is_some_and(|word| word.eq_ignore_ascii_case("mcu"));
        let (Some(npu), Some(chip)) = (number(Some(columns.npu)), number(Some(columns.chip)))
        else {
            continue;
        };
        let known = rows.iter().any(|old| (old.npu, old.chip) == (npu, chip));
        if !controller && !known && rows.len() < super::MOST {
            rows.push(Numbers {
                npu,
                chip,
                logic: number(columns.logic),
                phy: number(columns.phy),
            });
        }
    }
    columns.map(|_| rows)
}

/// NPUs and how many chips each has, of `-l`.
pub fn listing(text: &str) -> Vec<(u32, u32)> {
    let mut npus: Vec<(u32, u32)> = Vec::new();
    for line in super::lines(text) {
        match super::pair(&line) {
            Some(("NPU ID", value)) if npus.len() < super::MOST => {
                npus.extend(super::id(value).map(|npu| (npu, 0)));
            }
            Some(("Chip Count", value)) => {
                if let (Some(last), Some(count)) = (npus.last_mut(), super::id(value)) {
                    last.1 = count;
                }
            }
            _ => {}
        }
    }
    npus
}

/// In which order the columns of numbers come. The name is the last: it may have blanks.
#[derive(Clone, Copy)]
struct Columns {
    npu: usize,
    chip: usize,
    logic: Option<usize>,
    phy: Option<usize>,
}

// === impl Columns ===

impl Columns {
    fn of(line: &str) -> Option<Self> {
        let head = line.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        let names = ["npu id", "chip id", "chip logic id", "chip phy-id", "chip phy id"];
        let mut found: Vec<(usize, &str)> =
            names.iter().filter_map(|name| head.find(name).map(|at| (at, *name))).collect();
        found.sort_unstable();
        let place = |name: &str| found.iter().position(|(_, found)| *found == name);
        Some(Self {
            npu: place("npu id")?,
            chip: place("chip id")?,
            logic: place("chip logic id"),
            phy: place("chip phy-id").or_else(|| place("chip phy id")),
        })
    }
}
