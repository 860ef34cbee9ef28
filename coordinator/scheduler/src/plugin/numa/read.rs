//! What pods need aligned, and which zones their marks say they have.

use serde::Deserialize;

use crate::{
    input::{Container, Meta, Pod, ResourceList},
    snapshot::{CPU, Dimensions, MEMORY, PODS, amount_of},
};

use super::Piece;

/// What an agent saw.
const OBSERVED: &str = "kai.scheduler/numa-placement-observed";
/// What a scheduler expected.
const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";
/// A mark is short.
const LONGEST_MARK: usize = 16 * 1024;

#[derive(Deserialize)]
struct Mark {
    zone: String,
    #[serde(default)]
    amount: ResourceList,
}

/// Zones that a pod's marks say it has: zone, dimension, amount. What cannot be read says nothing.
pub fn placement_of(meta: &Meta, dimensions: &Dimensions) -> Vec<Piece> {
    let text = [OBSERVED, PREDICTED].into_iter().find_map(|name| meta.annotations.get(name));
    let text = text.filter(|text| text.len() <= LONGEST_MARK).unwrap_or_default();
    let marks: Vec<Mark> =
        if text.is_empty() { Vec::new() } else { serde_json::from_str(text).unwrap_or_default() };
    let mut pieces = Vec::new();
    for mark in marks {
        let Some(zone) = zone_number(&mark.zone) else { continue };
        for (name, amount) in mark.amount.iter() {
            if let Some(index) = dimensions.find(name) {
                pieces.push((zone, index, amount_of(dimensions, name, index, amount)));
            }
        }
    }
    pieces
}

/// What containers of a pod need aligned, whether each runs before the others, and whether all requests are limits.
///
/// Processors count where a container has whole ones for itself, which takes a pod whose requests are its limits;
/// so does memory. Devices always do.
pub fn needs_of(pod: &Pod, dimensions: &Dimensions) -> (Vec<(bool, Vec<(usize, f64)>)>, bool) {
    let all = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let guaranteed = !pod.spec.containers.is_empty() && all().all(is_guaranteed);
    let needs = |container: &Container| {
        let amounts = container.resources.requests.iter().filter_map(|(name, amount)| {
            let index = dimensions.find(name).filter(|index| *index != PODS)?;
            let amount = amount_of(dimensions, name, index, amount);
            let counts = match index {
                CPU => guaranteed && amount % 1000.0 == 0.0,
                MEMORY => guaranteed,
                _ => true,
            };
            (counts && amount > 0.0).then_some((index, amount))
        });
        amounts.collect::<Vec<_>>()
    };
    let before = |container: &Container| container.restart_policy != "Always";
    let init =
        pod.spec.init_containers.iter().map(|container| (before(container), needs(container)));
    let main = pod.spec.containers.iter().map(|container| (false, needs(container)));
    (init.chain(main).filter(|(_, needs)| !needs.is_empty()).collect(), guaranteed)
}

/// Whether a container's requests are its limits, for processors and memory. Requests that are not said are the limits.
fn is_guaranteed(container: &Container) -> bool {
    ["cpu", "memory"].into_iter().all(|name| {
        let (limit, request) =
            (container.resources.limits.get(name), container.resources.requests.get(name));
        limit
            .is_some_and(|limit| !limit.is_zero() && request.is_none_or(|request| request == limit))
    })
}

/// The number at the end of a zone's name, such as `node-1`.
pub(super) fn zone_number(name: &str) -> Option<usize> {
    let digits = name.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().ok()
}
