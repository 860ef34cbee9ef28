//! From which zones something is taken.

use super::{
    Piece,
    zones::{Available, Policy, Zones},
};

/// From which zones amounts are taken; none if a kubelet would refuse it.
pub(super) fn place(zones: &Zones, left: &Available, needs: &[(usize, f64)]) -> Option<Vec<Piece>> {
    let all = left.zones();
    match zones.policy {
        Policy::None => Some(Vec::new()),
        Policy::Single => first_mask(&all, 1, left, needs).map(|mask| pieces(&mask, left, needs)),
        Policy::Restricted => {
            let mut widths =
                needs.iter().map(|(dimension, amount)| zones.width(*dimension, *amount));
            let width = widths.next().unwrap_or(Some(1))?;
            if !widths.all(|other| other == Some(width)) {
                return None;
            }
            first_mask(&all, width, left, needs).map(|mask| pieces(&mask, left, needs))
        }
        Policy::BestEffort => Some(pieces(&greedy(all, left, needs), left, needs)),
    }
}

/// The first choice of so many zones, in order, that has enough of everything.
fn first_mask(
    zones: &[usize],
    width: usize,
    left: &Available,
    needs: &[(usize, f64)],
) -> Option<Vec<usize>> {
    fn grow(
        mask: &mut Vec<usize>,
        rest: &[usize],
        width: usize,
        enough: &impl Fn(&[usize]) -> bool,
    ) -> bool {
        if mask.len() == width {
            return enough(mask);
        }
        for (at, zone) in rest.iter().enumerate() {
            mask.push(*zone);
            if grow(mask, rest.get(at + 1..).unwrap_or_default(), width, enough) {
                return true;
            }
            mask.pop();
        }
        false
    }
    let enough = |mask: &[usize]| {
        let sum =
            |dimension| mask.iter().map(|zone| left.of(*zone, dimension).max(0.0)).sum::<f64>();
        needs.iter().all(|(dimension, amount)| sum(*dimension) >= *amount)
    };
    let mut mask = Vec::new();
    grow(&mut mask, zones, width, &enough).then_some(mask)
}

/// Zones, the one that covers most of what is left to place first, until all is placed or none helps.
fn greedy(mut zones: Vec<usize>, left: &Available, needs: &[(usize, f64)]) -> Vec<usize> {
    let mut open: Vec<(usize, f64, f64)> =
        needs.iter().map(|(index, amount)| (*index, *amount, *amount)).collect();
    let mut chosen = Vec::new();
    while open.iter().any(|(_, open, _)| *open > 0.0) {
        let covers = |zone: usize| {
            let part = |(index, open, all): &(usize, f64, f64)| {
                left.of(zone, *index).clamp(0.0, *open) / all
            };
            open.iter().map(part).sum::<f64>()
        };
        // Of zones that cover the same, the first.
        let best = zones
            .iter()
            .enumerate()
            .max_by(|(i, a), (j, b)| covers(**a).total_cmp(&covers(**b)).then(j.cmp(i)));
        let Some((at, zone)) =
            best.map(|(at, zone)| (at, *zone)).filter(|(_, zone)| covers(*zone) > 0.0)
        else {
            break;
        };
        for (index, open, _) in &mut open {
            *open -= left.of(zone, *index).clamp(0.0, *open);
        }
        chosen.push(zone);
        zones.remove(at);
    }
    chosen
}

/// What each zone gives: as much as it has, the first zone first.
fn pieces(mask: &[usize], left: &Available, needs: &[(usize, f64)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (dimension, amount) in needs {
        let mut open = *amount;
        for zone in mask {
            let given = left.of(*zone, *dimension).clamp(0.0, open);
            if given > 0.0 {
                pieces.push((*zone, *dimension, given));
                open -= given;
            }
        }
    }
    pieces
}
