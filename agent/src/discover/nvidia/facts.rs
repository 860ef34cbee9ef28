//! What the driver's library or tool adds to the files, remembered.
//!
//! An answer has topics. What it does not speak of, because nobody asked or because the question failed, stays as it
//! was known.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Fabric, Mig, PciAddress};

/// What was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub gpus: BTreeMap<PciAddress, GpuFacts>,
    /// How many NVLinks join two GPUs; the lower address first.
    pub joins: BTreeMap<(PciAddress, PciAddress), u8>,
}

/// What was told of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GpuFacts {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub model: String,
    pub fabric: Option<Fabric>,
    pub mig: Vec<Mig>,
    /// Why it cannot be used.
    pub fault: Option<String>,
}

/// What was said just now. A GPU that a topic does not name has not been spoken of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct News {
    pub calls: BTreeMap<PciAddress, Call>,
    pub fabrics: BTreeMap<PciAddress, Option<Fabric>>,
    pub slices: BTreeMap<PciAddress, Vec<Mig>>,
    pub joins: Joins,
}

/// A GPU that was called, and how it answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    pub index: Option<u32>,
    pub uuid: Option<String>,
    pub model: String,
    /// Why it cannot be used.
    pub fault: Option<String>,
}

/// NVLinks between those that were spoken of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Joins {
    pub of: BTreeSet<PciAddress>,
    pub counts: BTreeMap<(PciAddress, PciAddress), u8>,
}

// === impl Facts ===

impl Facts {
    /// Takes what is new.
    pub fn learn(&mut self, news: News) {
        let News { calls, fabrics, slices, joins } = news;
        let taken: BTreeMap<u32, PciAddress> =
            calls.iter().filter_map(|(pci, call)| Some((call.index?, *pci))).collect();
        for (pci, Call { index, uuid, model, fault }) in calls {
            let gpu_facts = self.gpus.entry(pci).or_default();
            if uuid.is_some() && gpu_facts.uuid.is_some() && uuid != gpu_facts.uuid {
                // Another GPU in the same place.
                *gpu_facts = GpuFacts::default();
                self.joins.retain(|(a, b), _| *a != pci && *b != pci);
            }
            gpu_facts.index = index.or(gpu_facts.index);
            gpu_facts.uuid = uuid.or(gpu_facts.uuid.take());
            if !model.is_empty() {
                gpu_facts.model = model;
            }
            gpu_facts.fault = fault;
        }
        for (pci, gpu_facts) in &mut self.gpus {
            // One that is not counted any more may have left its number to another.
            gpu_facts.index =
                gpu_facts.index.filter(|index| taken.get(index).is_none_or(|by| by == pci));
        }
        for (pci, fabric) in fabrics {
            self.gpus.entry(pci).or_default().fabric = fabric;
        }
        for (pci, slices) in slices {
            self.gpus.entry(pci).or_default().mig = slices;
        }
        self.joins.retain(|(a, b), _| !(joins.of.contains(a) && joins.of.contains(b)));
        self.joins.extend(joins.counts);
    }

    /// Forgets all GPUs but these.
    pub fn keep(&mut self, listed: impl Fn(&PciAddress) -> bool) {
        self.gpus.retain(|pci, _| listed(pci));
        self.joins.retain(|(a, b), _| listed(a) && listed(b));
    }

    /// Whether some GPU cannot be used.
    pub fn faulty(&self) -> bool {
        self.gpus.values().any(|gpu_facts| gpu_facts.fault.is_some())
    }
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

    fn gpu(bus: u8) -> PciAddress {
        PciAddress { domain: 0, bus, slot: 0, function: 0 }
    }

    fn call(index: Option<u32>, uuid: &str) -> Call {
        let uuid = Some(uuid.to_owned()).filter(|uuid| !uuid.is_empty());
        Call { index, uuid, ..Call::default() }
    }

    fn known() -> Facts {
        let mut facts = Facts::default();
        let mig = vec![Mig { uuid: "MIG-a".into(), profile: "1g.10gb".into() }];
        let of = BTreeSet::from([gpu(1), gpu(2), gpu(3)]);
        let counts = [(1, 2), (1, 3), (2, 3)].map(|(a, b)| ((gpu(a), gpu(b)), 4));
        facts.learn(News {
            calls: (1..=3).map(|n| (gpu(n), call(Some(n.into()), &format!("GPU-{n}")))).collect(),
            slices: BTreeMap::from([(gpu(1), mig), (gpu(2), vec![])]),
            joins: Joins { of, counts: counts.into() },
            ..News::default()
        });
        facts
    }

    #[test]
    fn what_is_not_spoken_of_stays() {
        let mut facts = known();
        facts.learn(News::default());
        assert_eq!(facts, known());
        let calls = BTreeMap::from([(gpu(1), call(Some(1), "GPU-1"))]);
        facts.learn(News { calls, ..News::default() });
        assert_eq!(facts, known());
        // Of two GPUs it is said that nothing joins them; of the third nothing is said.
        let joins = Joins { of: BTreeSet::from([gpu(1), gpu(2)]), ..Joins::default() };
        facts.learn(News { joins, ..News::default() });
        let left: Vec<_> = facts.joins.keys().copied().collect();
        assert_eq!(left, [(gpu(1), gpu(3)), (gpu(2), gpu(3))]);
        facts.keep(|pci| *pci != gpu(3));
        assert_eq!((facts.gpus.len(), facts.joins.len()), (2, 0));
    }

    #[test]
    fn another_gpu_in_the_same_place_has_nothing_of_the_first() {
        let mut facts = known();
        let calls = BTreeMap::from([(gpu(1), call(Some(1), "GPU-new"))]);
        facts.learn(News { calls, ..News::default() });
        let expected =
            GpuFacts { index: Some(1), uuid: Some("GPU-new".into()), ..GpuFacts::default() };
        assert_eq!(facts.gpus[&gpu(1)], expected);
        assert_eq!(facts.joins.len(), 1);
    }

    #[test]
    fn a_lost_gpu_keeps_its_index_until_another_has_it() {
        let mut facts = known();
        let lost = Call { fault: Some("lost".into()), ..Call::default() };
        let mut news = News { calls: BTreeMap::from([(gpu(2), lost)]), ..News::default() };
        facts.learn(news.clone());
        assert_eq!((facts.gpus[&gpu(2)].index, facts.faulty()), (Some(2), true));
        news.calls.insert(gpu(3), call(Some(2), "GPU-3"));
        facts.learn(news);
        assert_eq!((facts.gpus[&gpu(2)].index, facts.gpus[&gpu(3)].index), (None, Some(2)));
    }

    #[test]
    fn what_is_joined_by_others_is_one_island() {
        let joins = [(5, 6), (1, 2), (8, 9), (2, 9)].map(|(a, b)| (gpu(a), gpu(b)));
        let expected = [(1, 0), (2, 0), (5, 1), (6, 1), (8, 0), (9, 0)];
        let expected: BTreeMap<_, _> = expected.into_iter().map(|(b, n)| (gpu(b), n)).collect();
        assert_eq!(islands(joins.iter()), expected);
        assert_eq!(islands([].iter()), BTreeMap::new());
    }
}
