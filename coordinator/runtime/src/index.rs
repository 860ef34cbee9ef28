//! Which key each watched object belongs to. A change tells of the object alone; the key that it belonged to before must hear
//! of it, too.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The key of each object, and the objects of each key.
#[derive(Clone, Debug)]
pub struct OwnerIndex<O, K> {
    owners: HashMap<O, K>,
    owned: HashMap<K, HashSet<O>>,
}

// === impl OwnerIndex ===

impl<O, K> Default for OwnerIndex<O, K> {
    fn default() -> Self {
        Self { owners: HashMap::new(), owned: HashMap::new() }
    }
}

impl<O: Clone + Eq + Hash, K: Clone + Eq + Hash> OwnerIndex<O, K> {
    /// An object has come, changed or gone, and belongs to this key now. The keys that this concerns: the one before, and
    /// this one.
    pub fn set(&mut self, object: O, owner: Option<K>) -> Vec<K> {
        let before = match &owner {
            Some(key) => self.owners.insert(object.clone(), key.clone()),
            None => self.owners.remove(&object),
        };
        if before == owner {
            return owner.into_iter().collect();
        }
        if let Some(before) = &before
            && let Some(objects) = self.owned.get_mut(before)
        {
            objects.remove(&object);
            if objects.is_empty() {
                self.owned.remove(before);
            }
        }
        if let Some(key) = &owner {
            self.owned.entry(key.clone()).or_default().insert(object);
        }
        before.into_iter().chain(owner).collect()
    }

    /// The key of an object.
    pub fn owner(&self, object: &O) -> Option<&K> {
        self.owners.get(object)
    }

    /// The objects of a key.
    pub fn owned(&self, key: &K) -> impl Iterator<Item = &O> {
        self.owned.get(key).into_iter().flatten()
    }

    /// All objects that belong to a key.
    pub fn objects(&self) -> impl Iterator<Item = &O> {
        self.owners.keys()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_key_before_and_the_key_now_hear_of_an_object() {
        let mut index = OwnerIndex::default();
        assert_eq!(index.set("pod", Some("a")), ["a"]);
        assert_eq!(index.set("pod", Some("a")), ["a"]);
        assert_eq!(index.set("pod", Some("b")), ["a", "b"]);
        assert_eq!((index.owner(&"pod"), index.owned(&"a").count()), (Some(&"b"), 0));
        assert_eq!(index.owned(&"b").collect::<Vec<_>>(), [&"pod"]);
        assert_eq!(index.set("pod", None), ["b"]);
        assert_eq!(index.set("pod", None), [""; 0]);
        assert!(index.is_empty() && index.owned.is_empty());
    }
}
