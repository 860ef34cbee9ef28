//! The order of a server's devices: neighbours in its own network are neighbours in rank.
//!
//! The walk begins at the lowest id. Each step goes to the device that is nearest to all that have been visited last:
//! first what is in the same group (dies of one package, a ring, an island, a PCIe switch, a NUMA node), then what
//! has the nearest join, then what shares the memory, then the lowest id. A group is left when all of it has been
//! visited.

use std::collections::BTreeMap;

use muster_proto::annotation::MOST_DEVICES;
use muster_proto::device::{Device, Inventory, Join, Vendor};

/// Not joined, as far as anybody knows.
const APART: u32 = u32::MAX;

/// The place of each device, by its id. Nothing if there are more than any node has.
pub(super) fn places(inventory: &Inventory) -> BTreeMap<String, u32> {
    let mut places = BTreeMap::new();
    let mut next = 0;
    for vendor in [Vendor::Ascend, Vendor::Nvidia] {
        let devices = inventory.devices.iter().filter(|device| device.vendor == vendor);
        let devices: BTreeMap<u32, &Device> = devices.map(|device| (device.id, device)).collect();
        if devices.len() > MOST_DEVICES {
            continue;
        }
        let devices: Vec<&Device> = devices.into_values().collect();
        for device in walk(&devices, &Distances::of(&devices, inventory)) {
            // Ids of the other vendor may be the same; a group holds devices of one.
            places.entry(device.id.to_string()).or_insert(next);
            next += 1;
        }
    }
    places
}

fn walk<'a>(devices: &[&'a Device], distances: &Distances) -> Vec<&'a Device> {
    let mut left: Vec<(usize, &Device)> = devices.iter().copied().enumerate().collect();
    let mut walked = Vec::with_capacity(left.len());
    let mut here: Option<(usize, &Device)> = None;
    while !left.is_empty() {
        let far = |(at, device): &(usize, &Device)| {
            let Some((last, before)) = here else { return ([0; 3], device.id) };
            let other_memory = u32::from(before.numa != device.numa);
            let steps =
                [distances.groups.get(last, *at), distances.joins.get(last, *at), other_memory];
            (steps, device.id)
        };
        let nearest = (0..left.len()).min_by_key(|at| left.get(*at).map(far)).unwrap_or_default();
        // The order of what is left does not matter.
        let next = left.swap_remove(nearest);
        walked.push(next.1);
        here = Some(next);
    }
    walked
}

/// How far the devices of a server are from each other, in two ways.
struct Distances {
    /// As they are joined.
    joins: Matrix,
    /// The longest step of the way between them that has no longer step than it must: what is below it is a group.
    groups: Matrix,
}

struct Matrix {
    side: usize,
    cells: Vec<u32>,
}

// === impl Distances ===

impl Distances {
    fn of(devices: &[&Device], inventory: &Inventory) -> Self {
        let count = devices.len();
        let at: BTreeMap<_, usize> =
            devices.iter().enumerate().map(|(at, device)| (device.end(), at)).collect();
        let mut joins = Matrix::new(count);
        let mut links: Vec<(u32, usize, usize)> = Vec::new();
        for link in &inventory.links {
            if let (Some(one), Some(other)) = (at.get(&link.a), at.get(&link.b))
                && one != other
                && distance(link.join) < joins.get(*one, *other)
            {
                joins.set(*one, *other, distance(link.join));
                links.push((distance(link.join), *one, *other));
            }
        }
        for (one, device) in devices.iter().enumerate() {
            for (other, second) in devices.iter().enumerate().skip(one + 1) {
                if joins.get(one, other) == APART
                    && let Some(join) = seen(device, second)
                {
                    joins.set(one, other, distance(join));
                    links.push((distance(join), one, other));
                }
            }
        }
        links.sort_unstable();
        let groups = groups(count, &links);
        Self { joins, groups }
    }
}

/// What two devices tell of themselves, where nobody saw a link: they share a card, an island or the memory.
fn seen(one: &Device, other: &Device) -> Option<Join> {
    let same = |one: Option<u32>, other: Option<u32>| one.is_some() && one == other;
    let card = |device: &Device| device.card.map(|(card, _)| card);
    match () {
        () if same(card(one), card(other)) => Some(Join::Sio),
        () if same(one.island, other.island) => Some(Join::HccsSwitch),
        () if same(one.numa, other.numa) => Some(Join::Node),
        () => None,
    }
}

/// Joins groups from the nearest to the farthest; two devices get the distance at which theirs became one.
fn groups(count: usize, links: &[(u32, usize, usize)]) -> Matrix {
    let mut distances = Matrix::new(count);
    let mut group_of: Vec<usize> = (0..count).collect();
    let mut members: Vec<Vec<usize>> = (0..count).map(|device| vec![device]).collect();
    for (distance, one, other) in links {
        let (Some(to), Some(from)) = (group_of.get(*one).copied(), group_of.get(*other).copied())
        else {
            continue;
        };
        if to == from {
            continue;
        }
        let moved = members.get_mut(from).map(std::mem::take).unwrap_or_default();
        let Some(stay) = members.get_mut(to) else { continue };
        for one in &moved {
            stay.iter().for_each(|other| distances.set(*one, *other, *distance));
            if let Some(group) = group_of.get_mut(*one) {
                *group = to;
            }
        }
        stay.extend(moved);
    }
    distances
}

fn distance(join: Join) -> u32 {
    match join {
        Join::Sio => 0,
        Join::Hccs => 1,
        Join::HccsSwitch => 2,
        // More of them are nearer.
        Join::NvLink(count) => 300 - u32::from(count),
        Join::Pix => 400,
        Join::Pxb => 401,
        Join::Phb => 402,
        Join::Node => 403,
        Join::Sys => 404,
        Join::Na => APART,
    }
}

// === impl Matrix ===

impl Matrix {
    fn new(side: usize) -> Self {
        Self { side, cells: vec![APART; side * side] }
    }

    fn get(&self, one: usize, other: usize) -> u32 {
        self.cells.get(one * self.side + other).copied().unwrap_or(APART)
    }

    fn set(&mut self, one: usize, other: usize, distance: u32) {
        for at in [one * self.side + other, other * self.side + one] {
            if let Some(cell) = self.cells.get_mut(at) {
                *cell = distance;
            }
        }
    }
}
