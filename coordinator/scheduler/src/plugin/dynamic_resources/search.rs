//! The search for devices of one node that meet claims.
//!
//! Claim by claim, request by request, device by device; where a choice leads nowhere the next one is tried. The work of
//! one search is bounded.

use std::collections::BTreeSet;

use crate::{
    reason::NodeRefusal,
    snapshot::{
        Choice, ClaimId, ClaimShape, Claimed, DeviceId, Devices, Granted, Id, Node, NodeId, Pool,
        Request,
    },
};

/// Devices that one claim can have, as the API allows.
const MOST_DEVICES: usize = 32;
/// Devices that one search looks at.
const MOST_STEPS: u32 = 20_000;

/// Which devices filters mean, as far as it was asked.
#[derive(Debug, Default)]
pub(super) struct Matches(Vec<Vec<Option<Option<bool>>>>);

/// Why a search ends early.
enum Stop {
    /// It took too long.
    TooLong,
    /// A selector has no answer.
    NoAnswer,
    /// All devices are asked for, and not all are known.
    Incomplete,
}

/// A search on one node.
pub(super) struct Search<'a> {
    devices: &'a Devices,
    pools: &'a [Pool],
    node: &'a Node,
    taken: &'a BTreeSet<DeviceId>,
    matches: &'a mut Matches,
    /// What is to be met.
    shapes: Vec<&'a ClaimShape>,
    /// What was chosen, by place of the claim.
    chosen: Vec<(usize, Granted)>,
    left: u32,
}

// === impl Matches ===

impl Matches {
    /// Whether a filter means a device; none if it has no answer.
    fn ask(&mut self, devices: &Devices, filter: u32, device: DeviceId) -> Option<bool> {
        let row = filter as usize;
        if self.0.len() <= row {
            self.0.resize_with(row + 1, Vec::new);
        }
        let known = self.0.get_mut(row)?;
        if known.is_empty() {
            known.resize(devices.all.len(), None);
        }
        let place = known.get_mut(device.row())?;
        *place.get_or_insert_with(|| devices.filters.get(row)?.matches(&devices.all[device]).ok())
    }
}

// === impl Search ===

impl<'a> Search<'a> {
    pub(super) fn new(
        devices: &'a Devices,
        id: NodeId,
        node: &'a Node,
        taken: &'a BTreeSet<DeviceId>,
        matches: &'a mut Matches,
    ) -> Self {
        let pools = devices.of_node(id);
        let (shapes, chosen) = (Vec::new(), Vec::new());
        Self { devices, pools, node, taken, matches, shapes, chosen, left: MOST_STEPS }
    }

    /// Devices for each of some claims.
    pub(super) fn run(mut self, claims: &[ClaimId]) -> Result<Vec<Claimed>, NodeRefusal> {
        self.shapes = claims.iter().filter_map(|claim| self.devices.shape(*claim)).collect();
        match self.request(0, 0) {
            Ok(true) => {}
            Ok(false) | Err(Stop::TooLong) => return Err(self.lack()),
            Err(Stop::NoAnswer) => return Err(NodeRefusal::DeviceSelector),
            Err(Stop::Incomplete) => return Err(NodeRefusal::DevicePool),
        }
        let of = |at: usize| {
            let own = self.chosen.iter().filter(|(claim, _)| *claim == at);
            own.map(|(_, granted)| granted.clone()).collect()
        };
        let claimed = claims.iter().enumerate();
        Ok(claimed.map(|(at, claim)| Claimed { claim: *claim, devices: of(at) }).collect())
    }

    fn request(&mut self, claim: usize, at: usize) -> Result<bool, Stop> {
        let Some(shape) = self.shapes.get(claim).copied() else { return Ok(true) };
        let Some(request) = shape.requests.get(at) else { return self.request(claim + 1, 0) };
        if !self.counts(request) {
            return self.request(claim, at + 1);
        }
        for choice in &request.choices {
            let candidates = self.candidates(choice)?;
            let count = match choice.count {
                Some(count) => count as usize,
                None if candidates.is_empty() => continue,
                None => candidates.len(),
            };
            let had = self.chosen.iter().filter(|(of, _)| *of == claim).count();
            if had + count <= MOST_DEVICES && self.device(claim, at, choice, &candidates, count)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a request counts on this node.
    fn counts(&self, request: &Request) -> bool {
        request.extended.is_none_or(|dimension| self.node.claimed_dimensions.contains(&dimension))
    }

    /// Devices of the node that a choice means.
    fn candidates(&mut self, choice: &Choice) -> Result<Vec<DeviceId>, Stop> {
        let mut candidates = Vec::new();
        for pool in self.pools {
            if choice.count.is_none() && (pool.incomplete || pool.invalid) {
                return Err(Stop::Incomplete);
            }
            if pool.invalid {
                continue;
            }
            for device in &pool.devices {
                match self.matches.ask(self.devices, choice.filter, *device) {
                    Some(true) => candidates.push(*device),
                    Some(false) => {}
                    None => return Err(Stop::NoAnswer),
                }
            }
        }
        Ok(candidates)
    }

    /// Chooses so many of the candidates, then goes on with the next request.
    fn device(
        &mut self,
        claim: usize,
        at: usize,
        choice: &Choice,
        candidates: &[DeviceId],
        count: usize,
    ) -> Result<bool, Stop> {
        if count == 0 {
            return self.request(claim, at + 1);
        }
        for (place, device) in candidates.iter().enumerate() {
            let rest = candidates.get(place + 1..).unwrap_or_default();
            if rest.len() + 1 < count {
                return Ok(false);
            }
            self.left = self.left.checked_sub(1).ok_or(Stop::TooLong)?;
            if !self.is_free(claim, choice, *device) || !self.is_right(claim, at, choice, *device) {
                continue;
            }
            let request = self.name(claim, at, choice);
            let granted = Granted { request, device: *device, admin: choice.admin };
            self.chosen.push((claim, granted));
            if self.device(claim, at, choice, rest, count - 1)? {
                return Ok(true);
            }
            self.chosen.pop();
        }
        Ok(false)
    }

    /// Who only looks can look at what others have, once per claim.
    fn is_free(&self, claim: usize, choice: &Choice, device: DeviceId) -> bool {
        let mut mine = self.chosen.iter().filter(|(_, it)| it.device == device);
        if choice.admin {
            return !mine.any(|(of, _)| *of == claim);
        }
        !self.taken.contains(&device) && !mine.any(|(of, it)| *of == claim || !it.admin)
    }

    fn name(&self, claim: usize, at: usize, choice: &Choice) -> String {
        let request = self.shapes.get(claim).and_then(|shape| shape.requests.get(at));
        let name = request.map_or("", |request| request.name.as_str());
        if choice.name.is_empty() { name.to_owned() } else { format!("{name}/{}", choice.name) }
    }

    /// Whether a device may be beside those that the claim has already.
    fn is_right(&self, claim: usize, at: usize, choice: &Choice, device: DeviceId) -> bool {
        let Some(shape) = self.shapes.get(claim) else { return false };
        let full = self.name(claim, at, choice);
        let applies = |rule: &crate::snapshot::Rule, request: &str| {
            let short = request.split_once('/').map_or(request, |(short, _)| short);
            rule.requests.is_empty()
                || rule.requests.iter().any(|name| name == request || name == short)
        };
        shape.rules.iter().filter(|rule| applies(rule, &full)).all(|rule| {
            let value = |device: DeviceId| self.devices.all[device].attribute(&rule.attribute);
            let Some(own) = value(device) else { return false };
            let others = self.chosen.iter().filter(|(of, _)| *of == claim);
            others
                .filter(|(_, it)| applies(rule, &it.request))
                .all(|(_, it)| (value(it.device) == Some(own)) != rule.distinct)
        })
    }

    /// The first request that cannot be met by numbers alone, or the first of all.
    fn lack(mut self) -> NodeRefusal {
        self.chosen.clear();
        let short = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let mut first = None;
        for shape in self.shapes.clone() {
            for request in &shape.requests {
                if !self.counts(request) {
                    continue;
                }
                let Some(choice) = request.choices.last() else { continue };
                let Ok(candidates) = self.candidates(choice) else {
                    return NodeRefusal::DeviceSelector;
                };
                let free =
                    candidates.iter().filter(|it| choice.admin || !self.taken.contains(it)).count();
                let asked = choice.count.map_or(candidates.len().max(1), |count| count as usize);
                let refusal = NodeRefusal::DeviceClaim {
                    asked: short(asked),
                    matching: short(candidates.len()),
                    free: short(free),
                };
                if free < asked {
                    return refusal;
                }
                first = first.or(Some(refusal));
            }
        }
        first.unwrap_or(NodeRefusal::DeviceSelector)
    }
}
