//! Ranks: contiguous from 0, in order; or, told to keep them, as near to the last numbering as that allows.
//!
//! ```text
//!   before   a:0 b:1 c:2 d:3          keep: those that are still there and whose rank is below the new count
//!   now      a   c   d   e            stay, the others take the free ranks in order
//!   after    a:0 e:1 c:2 d:3
//! ```

use std::collections::HashMap;

use crate::group::Group;

/// Whether ranks stay when the group changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stability {
    /// Everything is numbered anew.
    #[default]
    Recount,
    /// Who survives keeps its rank.
    Keep,
}

/// The ranks of a table, by server and device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    ranks: HashMap<String, HashMap<String, u32>>,
}

// === impl Stability ===

impl Stability {
    /// The words.
    pub const WORDS: &'static str = "recount or keep";

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "recount" => Some(Self::Recount),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}

// === impl Numbering ===

impl Numbering {
    /// Notes a rank.
    pub fn insert(&mut self, server: &str, device: &str, rank: u32) {
        if !self.ranks.contains_key(server) {
            self.ranks.insert(server.to_owned(), HashMap::new());
        }
        if let Some(devices) = self.ranks.get_mut(server) {
            devices.insert(device.to_owned(), rank);
        }
    }

    /// The rank of a device.
    pub fn rank(&self, server: &str, device: &str) -> Option<u32> {
        self.ranks.get(server)?.get(device).copied()
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.ranks.values().map(HashMap::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranks.values().all(HashMap::is_empty)
    }
}

/// The ranks of the seats, which are in order: a permutation of `0..seats`.
pub(crate) fn assign(group: &Group, previous: Option<&Numbering>) -> Vec<u32> {
    let count = u32::try_from(group.seats.len()).unwrap_or(u32::MAX);
    let Some(previous) = previous else { return (0..count).collect() };
    let mut taken = vec![false; group.seats.len()];
    let kept: Vec<Option<u32>> = group
        .seats
        .iter()
        .map(|seat| {
            let server = group.servers.get(seat.server)?;
            let rank = previous.rank(&server.id, &seat.device.device_id)?;
            // A rank that is out of range, or that somebody else has, is not kept.
            let slot = taken.get_mut(rank as usize).filter(|slot| !**slot)?;
            *slot = true;
            Some(rank)
        })
        .collect();
    let mut free = (0..count).filter(|rank| taken.get(*rank as usize) == Some(&false));
    kept.into_iter().map(|rank| rank.or_else(|| free.next()).unwrap_or(u32::MAX)).collect()
}
