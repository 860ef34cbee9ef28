//! Ranks: contiguous from 0, in order; or, told to keep them, as near to the last numbering as that allows.
//!
//! ```text
//!   before   a:0 b:1 c:2 d:3          keep: those that are still there and whose rank is below the new count
//!   now      a   c   d   e            stay, the others take the free ranks in order
//!   after    a:0 e:1 c:2 d:3
//! ```

mod text;

use std::collections::HashMap;

use crate::group::Group;

pub use text::NumberingError;

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
    /// The values, for messages.
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

/// The seats by rank: the same seats as in order, in the order of the ranks that they get.
pub(crate) fn assign(group: &Group, order: Vec<u32>, previous: Option<&Numbering>) -> Vec<u32> {
    let Some(previous) = previous else { return order };
    let kept = |index: u32| {
        let seat = group.seats.get(index as usize)?;
        let server = group.servers.get(seat.server)?;
        previous.rank(&server.id, &seat.device.device_id)
    };
    let mut by_rank: Vec<Option<u32>> = vec![None; order.len()];
    let mut others = Vec::new();
    for index in order {
        // A rank that is out of range, or that somebody else has, is not kept.
        let slot = kept(index).and_then(|rank| by_rank.get_mut(rank as usize));
        match slot.filter(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(index),
            None => others.push(index),
        }
    }
    let mut others = others.into_iter();
    by_rank.into_iter().filter_map(|seat| seat.or_else(|| others.next())).collect()
}
