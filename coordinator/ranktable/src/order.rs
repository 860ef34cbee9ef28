//! The order in which ranks are given.
//!
//! | word | servers | devices of a server |
//! |---|---|---|
//! | `lexical` | by id, as text | by id, as text: "10" before "2" |
//! | `numeric` | by id, as text | by id, numbers by value and before words |
//! | `pod` | by their first pod | pod after pod, then numeric |
//! | `topology` | by super-pod, then by the place that the agents saw, then by id | by place, then numeric |
//!
//! In `pod`, a role instance with an entry pod comes before one without; then role, number of the instance, entry
//! pod, number of the pod and name decide. No order depends on the order in which the pods came.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::group::{Group, Member, Seat};

/// The order of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Servers and devices by id, as text.
    #[default]
    Lexical,
    /// Devices by number.
    Numeric,
    /// Pods first.
    Pod,
    /// Neighbours in the network are neighbours in rank.
    Topology,
}

/// What the agents saw of the network, by server id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The servers.
    pub servers: BTreeMap<String, Place>,
}

/// Where a server stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The super-pod, where there is one.
    pub super_pod: Option<String>,
    /// From the widest domain to the narrowest: spine, leaf, rack.
    pub path: Vec<String>,
    /// The place of each device in the server's own network, by device id.
    pub devices: BTreeMap<String, u32>,
}

// === impl Order ===

impl Order {
    /// The words that name the orders.
    pub const WORDS: &'static str = "lexical, numeric, pod or topology";

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "lexical" | "lexicographic" | "seed" => Some(Self::Lexical),
            "numeric" => Some(Self::Numeric),
            "pod" => Some(Self::Pod),
            "topology" => Some(Self::Topology),
            _ => None,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Numeric => "numeric",
            Self::Pod => "pod",
            Self::Topology => "topology",
        }
    }

    /// The word in digests. It never changes: tables that earlier versions recorded stay valid.
    pub fn digest_word(self) -> &'static str {
        match self {
            Self::Lexical => "seed",
            other => other.as_str(),
        }
    }

    /// The order of a group's seats.
    pub(crate) fn arrange(self, group: &Group, topology: Option<&Topology>) -> Arrangement {
        let members = match self {
            Self::Pod => pod_positions(&group.members),
            _ => vec![0; group.members.len()],
        };
        let servers = match self {
            Self::Lexical | Self::Numeric => {
                let ids: Vec<&str> =
                    group.servers.iter().map(|server| server.id.as_str()).collect();
                positions(ids.len(), |left, right| ids.get(left).cmp(&ids.get(right)))
            }
            Self::Pod => vec![0; group.servers.len()],
            Self::Topology => topology_positions(group, topology),
        };
        let at =
            |positions: &[u32], index: usize| positions.get(index).copied().unwrap_or(u32::MAX);
        let place = |seat: &Seat| match (self, topology) {
            (Self::Topology, Some(topology)) => {
                let id = group.servers.get(seat.server).map(|server| server.id.as_str());
                let place = id.and_then(|id| topology.servers.get(id));
                place.and_then(|place| place.devices.get(seat.device.device_id.as_str())).copied()
            }
            _ => None,
        };
        // Small keys are sorted, not the seats: ids decide only within a server, the input's order only between
        // equals, which a group that is not lenient does not have.
        let key = |seat: &Seat| [at(&members, seat.member), place(seat).unwrap_or(u32::MAX)];
        let mut keys = by_server(group, &servers, key);
        let device = |index: u32| {
            group
                .seats
                .get(index as usize)
                .map(|seat| seat.device.device_id.as_str())
                .unwrap_or_default()
        };
        for keys in keys.chunk_by_mut(|left, right| left.server == right.server) {
            keys.sort_unstable_by(|one, other| {
                let ids = || match self {
                    Self::Lexical => device(one.seat).cmp(device(other.seat)),
                    _ => numeric(device(one.seat), device(other.seat)),
                };
                one.rest.cmp(&other.rest).then_with(ids).then_with(|| one.seat.cmp(&other.seat))
            });
        }
        Arrangement {
            seats: keys.into_iter().map(|key| key.seat).collect(),
            servers: (self != Self::Pod).then_some(servers),
        }
    }
}

/// What a seat is sorted by.
#[derive(Clone, Copy, Default)]
struct Key {
    /// The position of its server.
    server: u32,
    /// What decides within the server, before the id.
    rest: [u32; 2],
    seat: u32,
}

/// What an order says about a group.
pub(crate) struct Arrangement {
    /// The seats in their order.
    pub(crate) seats: Vec<u32>,
    /// The position of each server; none where its first device decides.
    pub(crate) servers: Option<Vec<u32>>,
}

/// Numbers before words, numbers by value, words and equal numbers as text.
pub fn numeric(left: &str, right: &str) -> Ordering {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match (digits(left), digits(right)) {
        (true, true) => {
            let (one, other) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
            one.len().cmp(&other.len()).then_with(|| one.cmp(other)).then_with(|| left.cmp(right))
        }
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.cmp(right),
    }
}

/// Whether the text is a number as it is usually written: no sign, no leading zero.
pub fn is_decimal(text: &str) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0'))
}

/// The pods in their order, as the table lists them.
pub(crate) fn pod_positions(members: &[Member]) -> Vec<u32> {
    let mut entries: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for member in members {
        let instance = (member.post.role.as_str(), member.post.role_id.as_str());
        *entries.entry(instance).or_default() |= member.post.entry;
    }
    let keys: Vec<_> = members
        .iter()
        .map(|member| {
            let post = &member.post;
            let entered = entries.get(&(post.role.as_str(), post.role_id.as_str())).copied();
            let instance =
                (!entered.unwrap_or_default(), &post.role, post.role_index, &post.role_id);
            let pod = (!post.entry, post.index.is_none(), post.index);
            (instance, pod, &member.name, &member.namespace)
        })
        .collect();
    positions(members.len(), |left, right| keys.get(left).cmp(&keys.get(right)))
}

fn topology_positions(group: &Group, topology: Option<&Topology>) -> Vec<u32> {
    let unknown = Place::default();
    let place = |index: usize| {
        let server = group.servers.get(index)?;
        let place = topology.and_then(|topology| topology.servers.get(&server.id));
        let place = place.unwrap_or(&unknown);
        let told = server.members.iter().filter_map(|member| group.members.get(*member));
        let told = told.map(|member| member.data.super_pod_id.as_str()).find(|id| !id.is_empty());
        Some((place.super_pod.as_deref().or(told), place.path.as_slice(), server.id.as_str()))
    };
    positions(group.servers.len(), |left, right| {
        let (Some(left), Some(right)) = (place(left), place(right)) else { return Ordering::Equal };
        // What has no known place comes last.
        let pods = match (left.0, right.0) {
            (Some(one), Some(other)) => numeric(one, other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        };
        pods.then_with(|| left.1.is_empty().cmp(&right.1.is_empty()))
            .then_with(|| {
                let parts = left.1.iter().zip(right.1).map(|(one, other)| numeric(one, other));
                parts.fold(Ordering::Equal, Ordering::then)
            })
            .then_with(|| left.1.len().cmp(&right.1.len()))
            .then_with(|| numeric(left.2, right.2))
    })
}

/// The keys of a group's seats, in the order of their servers' positions. Positions are counted, not compared:
/// there are no more of them than servers.
fn by_server(group: &Group, servers: &[u32], rest: impl Fn(&Seat) -> [u32; 2]) -> Vec<Key> {
    let position = |seat: &Seat| servers.get(seat.server).copied().unwrap_or_default();
    let mut next: Vec<usize> = vec![0; servers.len() + 1];
    for seat in &group.seats {
        if let Some(count) = next.get_mut(position(seat) as usize + 1) {
            *count += 1;
        }
    }
    let mut before = 0;
    for count in &mut next {
        before += *count;
        *count = before;
    }
    let mut keys = vec![Key::default(); group.seats.len()];
    for (index, seat) in (0..).zip(&group.seats) {
        let server = position(seat);
        let Some(next) = next.get_mut(server as usize) else { continue };
        if let Some(key) = keys.get_mut(*next) {
            *key = Key { server, rest: rest(seat), seat: index };
        }
        *next += 1;
    }
    keys
}

/// The position that each index has in the order.
fn positions(count: usize, mut compare: impl FnMut(usize, usize) -> Ordering) -> Vec<u32> {
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_by(|left, right| compare(*left, *right));
    let mut positions = vec![0; count];
    for (position, index) in indices.into_iter().enumerate() {
        if let Some(slot) = positions.get_mut(index) {
            *slot = u32::try_from(position).unwrap_or(u32::MAX);
        }
    }
    positions
}

#[cfg(test)]
mod tests;
