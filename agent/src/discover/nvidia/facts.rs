//! What the driver's library or tool adds to the files. It changes rarely, so it is remembered.

use std::collections::BTreeMap;

use muster_proto::device::{Fabric, Mig, PciAddress};

/// What was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub gpus: BTreeMap<PciAddress, Told>,
    /// How many NVLinks join two GPUs; the lower address first.
    pub joins: BTreeMap<(PciAddress, PciAddress), u8>,
}

/// What was told of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub model: String,
    pub fabric: Option<Fabric>,
    pub mig: Vec<Mig>,
    /// Why it cannot be used.
    pub fault: Option<String>,
}

/// Numbers of the groups that are joined by NVLink, counted from the lowest member; a GPU without one has none.
pub(super) fn islands<'a>(
    joins: impl Iterator<Item = &'a (PciAddress, PciAddress)> + Clone,
) -> BTreeMap<PciAddress, u32> {
    // The lowest member of each GPU's group, until nothing changes. There are few GPUs.
    let mut lowest: BTreeMap<PciAddress, PciAddress> = BTreeMap::new();
    loop {
        let mut changed = false;
        for (a, b) in joins.clone() {
            let of = |gpu| *lowest.get(gpu).unwrap_or(gpu);
            let low = of(a).min(of(b));
            for gpu in [a, b] {
                changed |= lowest.insert(*gpu, low) != Some(low);
            }
        }
        if !changed {
            break;
        }
    }
    let mut numbers: BTreeMap<PciAddress, u32> = BTreeMap::new();
    let mut number = |low: PciAddress| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(low).or_insert(next)
    };
    lowest.into_iter().map(|(gpu, low)| (gpu, number(low))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_by_others_is_one_island() {
        let gpu = |bus| PciAddress { domain: 0, bus, slot: 0, function: 0 };
        let joins = [(5, 6), (1, 2), (8, 9), (2, 9)].map(|(a, b)| (gpu(a), gpu(b)));
        let expected = [(1, 0), (2, 0), (5, 1), (6, 1), (8, 0), (9, 0)];
        let expected: BTreeMap<_, _> = expected.into_iter().map(|(b, n)| (gpu(b), n)).collect();
        assert_eq!(islands(joins.iter()), expected);
        assert_eq!(islands([].iter()), BTreeMap::new());
    }
}
