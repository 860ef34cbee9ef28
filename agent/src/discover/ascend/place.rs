//! Which row of `npu-smi` is which `/dev/davinciN`.
//!
//! In this order: the physical id that the table shows; the one that `-m` shows; the NPU's number where each NPU
//! is one chip with a port; the order of both, where there are as many rows as devices (cards number by slot, with gaps).
//! What cannot be told stays untold: a wrong pairing would publish one chip's health as another's.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::Chip;

use super::parse::info::Row;
use super::parse::mapping::Numbers;

/// The rows by physical id, or `None` when it cannot be told.
pub fn place<'a>(
    rows: &'a [Row],
    numbers: &[Numbers],
    chip: Chip,
    present: &BTreeSet<u32>,
    seen: &BTreeSet<u32>,
) -> Option<BTreeMap<u32, &'a Row>> {
    let mapped = |row: &Row| {
        let same = |n: &&Numbers| (n.npu, n.chip) == (row.npu, row.chip);
        numbers.iter().find(same).and_then(|found| found.phy)
    };
    let single = rows.iter().map(|row| row.npu).collect::<BTreeSet<u32>>().len() == rows.len();
    let by_npu = match chip {
        Chip::Unknown => {
            rows.iter().all(|row| present.contains(&row.npu) || seen.contains(&row.npu))
        }
        chip => chip.has_port(),
    };
    by(rows, |row| row.phy)
        .or_else(|| by(rows, mapped))
        .or_else(|| by(rows, |row| (single && by_npu).then_some(row.npu)))
        .or_else(|| in_order(rows, present))
        .or_else(|| in_order(rows, &present.union(seen).copied().collect()))
}

/// By a number that every row has and no two share.
fn by(rows: &[Row], number: impl Fn(&Row) -> Option<u32>) -> Option<BTreeMap<u32, &Row>> {
    let mut placed = BTreeMap::new();
    for row in rows {
        if placed.insert(number(row)?, row).is_some() {
            return None;
        }
    }
    Some(placed)
}

fn in_order<'a>(rows: &'a [Row], ids: &BTreeSet<u32>) -> Option<BTreeMap<u32, &'a Row>> {
    if rows.len() != ids.len() {
        return None;
    }
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| (row.npu, row.chip));
    Some(ids.iter().copied().zip(rows).collect())
}

/// The generation by the name that the tool prints.
///
/// A3 is called plainly `Ascend910`, and differs from the first generation by its two dies per NPU.
pub fn by_name(rows: &[Row]) -> Chip {
    let Some(first) = rows.first() else { return Chip::Unknown };
    let name = first.name.trim_start_matches("Ascend").trim();
    let digit_after = |part: &str| {
        let rest = name.strip_prefix(part);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let dies = rows.iter().filter(|row| row.npu == first.npu).count();
    match name {
        _ if name.contains("310P") => Chip::Ascend310p,
        _ if name.contains("310B") => Chip::Ascend310b,
        _ if name.contains("310") => Chip::Ascend310,
        _ if name.starts_with("950") => Chip::AscendA5,
        _ if digit_after("910B") => Chip::Ascend910b,
        _ if name.starts_with("910_93") || (name == "910" && dies == 2) => Chip::AscendA3,
        _ if name.starts_with("910") => Chip::Ascend910a,
        _ => Chip::Unknown,
    }
}
