//! Groups that are to be looked at: each once, first come, first served.

use std::collections::{HashSet, VecDeque};

use super::super::member::GroupKey;

/// Groups that are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Marked {
    waiting: VecDeque<GroupKey>,
    known: HashSet<GroupKey>,
}

// === impl Marked ===

impl Marked {
    pub fn insert(&mut self, key: GroupKey) {
        if self.known.insert(key.clone()) {
            self.waiting.push_back(key);
        }
    }

    pub fn extend(&mut self, keys: impl Iterator<Item = GroupKey>) {
        keys.for_each(|key| self.insert(key));
    }

    pub fn pop(&mut self) -> Option<GroupKey> {
        let key = self.waiting.pop_front()?;
        self.known.remove(&key);
        Some(key)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_marked_first_comes_first_and_only_once() {
        let key = |name: &str| GroupKey { namespace: "n".into(), name: name.into() };
        let mut marked = Marked::default();
        marked.extend(["z", "a", "z"].map(key).into_iter());
        assert_eq!(marked.len(), 2);
        assert_eq!(marked.pop(), Some(key("z")));
        marked.insert(key("z"));
        assert_eq!(
            [marked.pop(), marked.pop(), marked.pop()],
            [Some(key("a")), Some(key("z")), None]
        );
    }
}
