//! Where each object is in its list: an event costs the same however many there are.

use std::collections::HashMap;
use std::hash::Hash;

/// Places in a list, by key.
#[derive(Clone, Debug)]
pub struct Index<K>(HashMap<K, usize>);

// === impl Index ===

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq + Clone> Index<K> {
    /// Puts an item into the list, in the place of the one with its key; that one comes back.
    pub fn put<T>(&mut self, list: &mut Vec<T>, key: K, item: T) -> Option<T> {
        match self.0.get(&key).and_then(|at| list.get_mut(*at)) {
            Some(place) => Some(std::mem::replace(place, item)),
            None => {
                self.0.insert(key, list.len());
                list.push(item);
                None
            }
        }
    }

    /// Takes an item out of the list. The last one takes its place.
    pub fn take<T>(&mut self, list: &mut Vec<T>, key: &K, key_of: impl Fn(&T) -> K) -> Option<T> {
        let at = self.0.remove(key)?;
        let item = (at < list.len()).then(|| list.swap_remove(at));
        if let Some(moved) = list.get(at) {
            self.0.insert(key_of(moved), at);
        }
        item
    }

    /// One item.
    pub fn get<'a, T>(&self, list: &'a [T], key: &K) -> Option<&'a T> {
        list.get(*self.0.get(key)?)
    }

    /// One item, to change it; its key must stay.
    pub fn get_mut<'a, T>(&self, list: &'a mut [T], key: &K) -> Option<&'a mut T> {
        list.get_mut(*self.0.get(key)?)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_with_an_index_is_a_map(steps in prop::collection::vec((any::<bool>(), 0_u8..20, any::<u16>()), 0..200)) {
            let (mut list, mut index) = (Vec::new(), Index::default());
            let mut map = std::collections::BTreeMap::new();
            for (put, key, value) in steps {
                if put {
                    let old = index.put(&mut list, key, (key, value)).map(|(_, value)| value);
                    prop_assert_eq!(old, map.insert(key, value));
                } else {
                    let old = index.take(&mut list, &key, |(key, _)| *key).map(|(_, value)| value);
                    prop_assert_eq!(old, map.remove(&key));
                }
                list.sort_by_key(|(key, _): &(u8, u16)| index.0.get(key).copied());
                prop_assert_eq!(list.len(), map.len());
                for (key, value) in &map {
                    prop_assert_eq!(index.get(&list, key), Some(&(*key, *value)));
                }
            }
        }
    }
}
