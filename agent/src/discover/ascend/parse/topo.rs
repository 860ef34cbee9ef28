//! `npu-smi info -t topo`: how each pair is joined, and the cores that are near each device.
//!
//! ```text
//!            NPU0       NPU1       CPU Affinity
//! NPU0       X          HCCS       144-167
//! NPU1       HCCS       X          144-167
//! ```

use std::collections::BTreeMap;

use muster_proto::device::Join;

/// How many devices a matrix may have. Its cells are pairs, so this is smaller than for other lists.
const WIDEST: usize = 128;

/// How long a list of cores may be.
const CORES: usize = 256;

/// The matrix that `npu-smi info -t topo` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topo {
    /// Its numbers, ascending.
    pub numbers: Vec<u32>,
    /// Pairs of them, the smaller first; what is not known is left out.
    pub joins: BTreeMap<(u32, u32), Join>,
    /// The cores near each.
    pub cpus: BTreeMap<u32, String>,
}

/// The matrix, or `None` when this is none.
pub fn topo(text: &str) -> Option<Topo> {
    let mut lines = super::lines(text);
    let columns = lines.by_ref().find_map(|line| head(&line))?;
    let mut topo = Topo { numbers: columns.clone(), ..Topo::default() };
    for line in lines {
        let mut words = line.split_whitespace();
        let Some(row) = words.next().and_then(number) else { continue };
        if !columns.contains(&row) {
            continue;
        }
        for (column, word) in columns.iter().zip(words.by_ref()) {
            let pair = (row.min(*column), row.max(*column));
            let join = word.parse().ok().filter(|join| *join != Join::Na);
            // The upper half counts; the lower fills its holes.
            if let (Some(join), true) = (join, row != *column) {
                topo.joins.entry(pair).or_insert(join);
            }
        }
        if let Some(cores) = words.next().filter(|word| is_cores(word)) {
            topo.cpus.insert(row, cores.to_owned());
        }
    }
    topo.numbers.sort_unstable();
    let alone = topo.numbers.len() < 2;
    (alone || !topo.joins.is_empty()).then_some(topo)
}

/// The columns, when this is the line of heads: names of devices, then nothing or the cores' head.
fn head(line: &str) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = Vec::new();
    for word in line.split_whitespace() {
        match number(word) {
            Some(number) if numbers.len() < WIDEST && !numbers.contains(&number) => {
                numbers.push(number);
            }
            None if word.eq_ignore_ascii_case("CPU") => break,
            _ => return None,
        }
    }
    (!numbers.is_empty()).then_some(numbers)
}

/// The number in `NPU7` or `Phy-ID7`.
fn number(word: &str) -> Option<u32> {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = ["npu", "phy", "phy-id", "phyid"].contains(&name.to_ascii_lowercase().as_str());
    word.get(name.len()..).filter(|_| known).and_then(super::id)
}

fn is_cores(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b',');
    plain && word.len() <= CORES && word.starts_with(|c: char| c.is_ascii_digit())
}
