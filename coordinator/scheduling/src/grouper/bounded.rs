//! A map that is bounded in number and in weight: the oldest make room.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values by key. What was put in last stays, however heavy it is.
#[derive(Debug)]
pub struct Bounded<K, V> {
    max_entries: usize,
    max_weight: usize,
    entries: BTreeMap<K, Entry<V>>,
    /// Oldest first.
    order: BTreeMap<u64, K>,
    next: u64,
    weight: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    number: u64,
    weight: usize,
}

// === impl Bounded ===

impl<K: Ord + Clone, V> Bounded<K, V> {
    /// Holds so many values, of which all together weigh so much.
    pub fn new(max_entries: usize, max_weight: usize) -> Self {
        let (entries, order) = (BTreeMap::new(), BTreeMap::new());
        Self { max_entries, max_weight, entries, order, next: 0, weight: 0 }
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Puts in a value, which is the youngest now.
    pub fn put(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        let number = self.next;
        self.next += 1;
        self.weight = self.weight.saturating_add(weight);
        self.order.insert(number, key.clone());
        self.entries.insert(key, Entry { value, number, weight });
        while self.entries.len() > 1
            && (self.entries.len() > self.max_entries || self.weight > self.max_weight)
        {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.remove(&oldest);
        }
    }

    /// Takes out a value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.number);
            self.weight = self.weight.saturating_sub(entry.weight);
        }
    }

    /// How many values there are, and what they weigh.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_by_number_and_by_weight() {
        let mut bounded = Bounded::new(3, 100);
        ["a", "b", "c", "d"].into_iter().for_each(|key| bounded.put(key, (), 10));
        assert_eq!((bounded.get("a"), bounded.size()), (None, (3, 30)));
        bounded.put("b", (), 10);
        bounded.put("heavy", (), 85);
        assert_eq!((bounded.get("b"), bounded.get("d")), (Some(&()), None));
        assert_eq!(bounded.size(), (2, 95), "b was put in again after d");
        bounded.put("heavier", (), 200);
        assert_eq!(bounded.size(), (1, 200), "it is kept alone");
        bounded.remove("heavier");
        assert_eq!((bounded.size(), bounded.order.len()), ((0, 0), 0));
    }
}
