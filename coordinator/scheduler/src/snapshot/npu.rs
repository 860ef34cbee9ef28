//! NPUs of a node one by one, and how they are wired.
//!
//! On boards of the first generation eight NPUs are two rings of four, and what a pod gets has to be in one ring: 1, 2 or 4
//! of one, or all 8. On others all are linked with each other, and any of them will do.

use std::sync::Arc;

/// NPUs in a ring, on boards where rings matter.
const RING: usize = 4;

/// NPUs of a node that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Npus {
    /// Them, by number.
    pub devices: Vec<Npu>,
}

/// An NPU of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Npu {
    /// Its number on the node.
    pub id: u32,
    /// The dimension that it counts as.
    pub dimension: usize,
    /// Its ring, where rings matter.
    pub ring: Option<u32>,
}

/// NPUs that a pod would get.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Numbers of the chosen NPUs on their node.
    pub devices: Arc<[u32]>,
    /// How well what is left can be used: 1 is best, 0 worst.
    pub fit: f64,
}

// === impl Npus ===

impl Npus {
    /// Whether the node's rings matter to a dimension.
    pub fn has_rings(&self, dimension: usize) -> bool {
        let mut rings = self.of(dimension).map(|npu| npu.ring);
        let first = rings.next().flatten();
        first.is_some() && rings.any(|ring| ring != first)
    }

    fn of(&self, dimension: usize) -> impl Iterator<Item = &Npu> {
        self.devices.iter().filter(move |npu| npu.dimension == dimension)
    }

    /// So many NPUs of those that nobody has; none if that cannot be.
    pub fn choose(
        &self,
        dimension: usize,
        count: usize,
        taken: &dyn Fn(u32) -> bool,
    ) -> Option<Choice> {
        let free: Vec<&Npu> = self.of(dimension).filter(|npu| !taken(npu.id)).collect();
        if count == 0 || free.len() < count {
            return None;
        }
        let made = |devices: &[&Npu], fit: f64| {
            let devices = devices.iter().take(count).map(|npu| npu.id).collect();
            Some(Choice { devices, fit })
        };
        if !self.has_rings(dimension) {
            return made(&free, if free.len() == count { 1.0 } else { 0.5 });
        }
        let mut rings: Vec<Option<u32>> = free.iter().map(|npu| npu.ring).collect();
        rings.sort_unstable();
        rings.dedup();
        let there = |ring: Option<u32>| free.iter().copied().filter(move |npu| npu.ring == ring);
        if count > RING {
            // Whole rings only.
            let whole = rings.into_iter().filter(|ring| there(*ring).count() == RING);
            let all: Vec<&Npu> = whole.flat_map(there).take(count).collect();
            let exact = count.is_multiple_of(RING) && all.len() == count;
            return if exact { made(&all, 1.0) } else { None };
        }
        let best = rings
            .into_iter()
            .filter_map(|ring| {
                let there: Vec<&Npu> = there(ring).collect();
                Some((fit(count, there.len())?, there))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
        best.and_then(|(fit, there)| made(&there, fit))
    }
}

/// How well a pod fits a ring with so many free; none if not at all. What fits exactly is best, then what leaves a pair,
/// then what breaks a ring that is broken already.
fn fit(count: usize, free: usize) -> Option<f64> {
    Some(match (count, free) {
        (1, 1) | (2, 2) | (4, 4..) => 1.0,
        (1, 3) => 0.75,
        (1, 2) => 0.5,
        (1, 4..) => 0.25,
        (2, 4..) => 0.6,
        (2, 3) => 0.3,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Npus {
        Npus { devices: (0..8).map(|id| Npu { id, dimension: 5, ring: Some(id / 4) }).collect() }
    }

    fn chosen(taken: &[u32], count: usize) -> Option<Vec<u32>> {
        let choice = board().choose(5, count, &|id| taken.contains(&id));
        choice.map(|choice| choice.devices.to_vec())
    }

    #[test]
    fn what_a_pod_gets_is_in_one_ring() {
        assert_eq!(chosen(&[], 4), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&[1], 4), Some(vec![4, 5, 6, 7]));
        assert_eq!(chosen(&[1, 5], 4), None, "six are free, but four of no ring");
        assert_eq!(chosen(&[], 8), Some(vec![0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(chosen(&[7], 8), None);
        for odd in [3, 5, 6, 7] {
            assert_eq!(chosen(&[], odd), None, "{odd}");
        }
    }

    #[test]
    fn a_ring_that_is_broken_is_filled_before_a_whole_one_is_broken() {
        assert_eq!(chosen(&[0], 1), Some(vec![1]), "three left is better than four");
        assert_eq!(chosen(&[0, 4, 5, 6], 1), Some(vec![7]), "one left is best");
        assert_eq!(chosen(&[0, 4, 5], 2), Some(vec![6, 7]), "two left fit exactly");
        assert_eq!(chosen(&[0], 2), Some(vec![4, 5]), "of three, one would be left alone");
    }

    #[test]
    fn where_all_are_linked_any_will_do() {
        let mut mesh = board();
        for npu in &mut mesh.devices {
            npu.ring = None;
        }
        let six = mesh.choose(5, 6, &|id| id == 0).unwrap();
        assert_eq!(six.devices.as_ref(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(mesh.choose(6, 1, &|_| false), None, "another resource");
    }
}
