//! `npu-smi info`: a box with two lines per chip.
//!
//! ```text
//! | NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
//! | Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
//! +===========================+===============+====================================================+
//! | 0     Ascend910           | OK            | 165.0       34                0    / 0             |
//! | 0     0                   | 0000:9D:00.0  | 0           0    / 0          3150 / 65536         |
//! ```
//!
//! `Phy-ID` is there on newer drivers. Where the column is called `Device` it is a dense index of chips, not
//! the physical id, and nobody needs it.

use muster_proto::device::{Health, PciAddress};

/// What `npu-smi info` prints of one chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The NPU: the card.
    pub npu: u32,
    /// The chip on it.
    pub chip: u32,
    /// The physical id, where the table has it.
    pub phy: Option<u32>,
    /// The chip's name, such as `910B3`.
    pub name: String,
    /// How it is.
    pub health: Health,
    /// Where it is plugged in.
    pub pci: Option<PciAddress>,
}

/// The cells that are needed, by their heads.
#[derive(Clone, Copy, Default)]
struct Heads {
    health: usize,
    bus: usize,
    phy: bool,
}

/// The chips, or `None` when this is no such table. Of two rows of one chip the first counts.
pub fn info(text: &str) -> Option<Vec<Row>> {
    let mut heads: Option<Heads> = None;
    let mut health_at = None;
    // The first line of a chip waits here for its second.
    let mut upper: Option<(u32, String, Health)> = None;
    let mut rows: Vec<Row> = Vec::new();
    for line in super::lines(text) {
        let Some(cells) = cells(&line) else { continue };
        let first: Vec<&str> = cells.first().map_or("", |cell| cell).split_whitespace().collect();
        let place = |head: &str| cells.iter().position(|cell| cell.eq_ignore_ascii_case(head));
        match (first.as_slice(), heads) {
            (["NPU", ..], Some(_)) => break,
            (["NPU", "Name"], None) => health_at = place("Health"),
            (["Chip", more @ ..], None) => {
                if let (Some(health), Some(bus)) = (health_at, place("Bus-Id")) {
                    let phy = more.first().is_some_and(|head| head.eq_ignore_ascii_case("Phy-ID"));
                    heads = Some(Heads { health, bus, phy });
                }
            }
            ([number, rest @ ..], Some(heads)) => {
                let Some(number) = super::id(number) else { continue };
                match upper.take() {
                    None => {
                        let word = cells.get(heads.health).map_or("", |cell| cell);
                        upper = Some((number, super::name(&rest.join(" ")), health(word)));
                    }
                    Some((npu, name, health)) => {
                        let phy = rest.first().filter(|_| heads.phy).and_then(|id| super::id(id));
                        let pci = cells.get(heads.bus).and_then(|cell| cell.parse().ok());
                        let row = Row { npu, chip: number, phy, name, health, pci };
                        let known = |old: &Row| (old.npu, old.chip) == (row.npu, row.chip);
                        if rows.len() < super::MOST && !rows.iter().any(known) {
                            rows.push(row);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    heads.map(|_| rows)
}

/// What a health word means. Words that nobody knows say nothing.
pub fn health(word: &str) -> Health {
    match word.trim().to_ascii_lowercase().as_str() {
        "ok" => Health::Ok,
        "warning" => Health::Degraded("Warning".to_owned()),
        "alarm" => Health::Faulty("Alarm".to_owned()),
        "critical" => Health::Faulty("Critical".to_owned()),
        _ => Health::Unknown,
    }
}

/// What is between the bars.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').take(16).map(str::trim).collect())
}
