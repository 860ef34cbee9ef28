//! Whether zones hold what a pod needs, and which of them would.

use std::collections::BTreeMap;

use crate::snapshot::{Vector, at};

use super::zones::{Policy, Zones, widths};

/// What one thing that is aligned needs, by dimension.
pub(super) type Need = Vec<(usize, f64)>;

/// Amounts by zone and dimension.
pub(super) type Places = BTreeMap<(usize, usize), f64>;

/// Aligns what runs together, one after the other, and what runs before it, each alone. None if that cannot be.
pub(super) fn align(
    zones: &Zones,
    available: &[Vector],
    together: &[Need],
    before: &[Need],
) -> Option<Places> {
    let mut taken = Places::new();
    for need in together {
        let mask = mask(zones, available, &taken, need)?;
        for (i, amount) in need {
            let mut left = *amount;
            for zone in &mask {
                let take = left.min(free(available, &taken, *zone, *i)).max(0.0);
                if take > 0.0 {
                    *taken.entry((*zone, *i)).or_insert(0.0) += take;
                    left -= take;
                }
            }
        }
    }
    let nothing = Places::new();
    before.iter().all(|need| mask(zones, available, &nothing, need).is_some()).then_some(taken)
}

fn free(available: &[Vector], taken: &Places, zone: usize, i: usize) -> f64 {
    available.get(zone).map_or(0.0, |zone| at(zone, i))
        - taken.get(&(zone, i)).copied().unwrap_or(0.0)
}

fn mask(zones: &Zones, available: &[Vector], taken: &Places, need: &Need) -> Option<Vec<usize>> {
    let all = 0..zones.zones.len();
    let holds = |mask: &[usize]| {
        need.iter().all(|(i, amount)| {
            mask.iter().map(|zone| free(available, taken, *zone, *i)).sum::<f64>() >= *amount
        })
    };
    match zones.policy {
        Policy::SingleZone => all.map(|zone| vec![zone]).find(|mask| holds(mask)),
        Policy::BestEffort => {
            greedy(zones.zones.len(), need, |zone, i| free(available, taken, zone, i))
        }
        Policy::Restricted | Policy::None => {
            let mut width = None;
            for (i, amount) in need {
                let fewest = widths(zones, *i).iter().position(|sum| sum >= amount)? + 1;
                if width.is_some_and(|width| width != fewest) {
                    return None;
                }
                width = Some(fewest);
            }
            match width {
                None => Some(Vec::new()),
                Some(width) => {
                    combinations(zones.zones.len(), width).into_iter().find(|mask| holds(mask))
                }
            }
        }
    }
}

/// Zones that cover the most of what is left, one after the other.
fn greedy(count: usize, need: &Need, free: impl Fn(usize, usize) -> f64) -> Option<Vec<usize>> {
    let mut left = need.clone();
    let mut mask: Vec<usize> = Vec::new();
    while left.iter().any(|(_, amount)| *amount > 0.0) {
        let cover = |zone: usize| -> f64 {
            left.iter()
                .filter(|(_, amount)| *amount > 0.0)
                .map(|(i, amount)| amount.min(free(zone, *i)))
                .sum()
        };
        let open = (0..count).filter(|zone| !mask.contains(zone)).map(|zone| (cover(zone), zone));
        let best = open
            .filter(|(cover, _)| *cover > 0.0)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (_, zone) = best?;
        mask.push(zone);
        for (i, amount) in &mut left {
            *amount -= free(zone, *i);
        }
    }
    Some(mask)
}

/// All sets of so many numbers below a bound, in order. Nodes have few zones; what is beyond eight is not looked at.
fn combinations(bound: usize, size: usize) -> Vec<Vec<usize>> {
    let bound = bound.min(8);
    let mut sets: Vec<Vec<usize>> = (0_u32..1 << bound)
        .map(|bits| (0..bound).filter(|zone| bits & (1 << zone) != 0).collect::<Vec<_>>())
        .filter(|set| set.len() == size)
        .collect();
    sets.sort();
    sets
}
