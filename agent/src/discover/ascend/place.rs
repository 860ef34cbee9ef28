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

#[cfg(test)]
mod tests {
    use muster_proto::device::Health;

    use super::*;

    fn row(npu: u32, chip: u32, phy: Option<u32>, name: &str) -> Row {
        Row { npu, chip, phy, name: name.into(), health: Health::Ok, pci: None }
    }

    fn numbers(npu: u32, chip: u32, phy: u32) -> Numbers {
        Numbers { npu, chip, logic: None, phy: Some(phy) }
    }

    #[test]
    fn the_surest_number_decides() {
        let single = [row(4, 0, None, ""), row(2, 0, None, "")];
        let shown = [row(4, 0, Some(9), ""), row(2, 0, Some(8), "")];
        let twice = [row(4, 0, Some(9), ""), row(2, 0, Some(9), "")];
        let mapped = [numbers(4, 0, 6), numbers(2, 0, 7)];
        let (a, p) = (Chip::Ascend910b, Chip::Ascend310p);
        // Expected: the ids of both rows.
        for (rows, numbers, chip, present, expected) in [
            (&shown, &mapped[..], a, vec![0, 1], Some([9, 8])),
            (&single, &mapped[..], a, vec![0, 1], Some([6, 7])),
            (&twice, &mapped[..], a, vec![0, 1], Some([6, 7])),
            (&single, &mapped[..1], a, vec![0, 1], Some([4, 2])),
            (&single, &[][..], p, vec![0, 1], Some([1, 0])),
            (&single, &[][..], p, vec![0], None),
            (&single, &[][..], Chip::Unknown, vec![2, 4], Some([4, 2])),
            (&single, &[][..], Chip::Unknown, vec![0, 1], Some([1, 0])),
        ] {
            let present = present.into_iter().collect();
            let placed = place(rows, numbers, chip, &present, &BTreeSet::new());
            let ids = placed.map(|placed| {
                let id =
                    |row: &Row| placed.iter().find(|(_, found)| **found == row).map(|(id, _)| *id);
                [id(&rows[0]).unwrap(), id(&rows[1]).unwrap()]
            });
            assert_eq!(ids, expected, "{chip:?} {present:?}");
        }
    }

    #[test]
    fn names_tell_generations() {
        for (name, chip) in [
            ("910B3", Chip::Ascend910b),
            ("Ascend 910B3", Chip::Ascend910b),
            ("910A", Chip::Ascend910a),
            ("910ProB", Chip::Ascend910a),
            ("910", Chip::Ascend910a),
            ("310P3", Chip::Ascend310p),
            ("310B1", Chip::Ascend310b),
            ("310", Chip::Ascend310),
            ("Ascend950", Chip::AscendA5),
            ("", Chip::Unknown),
        ] {
            assert_eq!(by_name(&[row(0, 0, None, name)]), chip, "{name}");
        }
        let dies = [row(0, 0, Some(0), "Ascend910"), row(0, 1, Some(1), "Ascend910")];
        assert_eq!(by_name(&dies), Chip::AscendA3);
    }
}
