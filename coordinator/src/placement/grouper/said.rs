//! What was said of which pod, so that nobody hears it twice. Bounded: of many pods the oldest are forgotten.

use std::collections::{HashMap, VecDeque};

/// Pods that are remembered.
const MOST: usize = 16 * 1024;

/// What was said, by the pod's uid.
#[derive(Debug, Default)]
pub struct Said {
    known: HashMap<String, (u64, String)>,
    order: VecDeque<(u64, String)>,
    next: u64,
}

// === impl Said ===

impl Said {
    /// Whether this is news of the pod. If it is, it is remembered.
    pub fn is_news(&mut self, uid: &str, message: &str) -> bool {
        if self.known.get(uid).is_some_and(|(_, said)| said == message) {
            return false;
        }
        let number = self.next;
        self.next += 1;
        self.known.insert(uid.to_owned(), (number, message.to_owned()));
        self.order.push_back((number, uid.to_owned()));
        while self.order.len() > MOST {
            let Some((number, uid)) = self.order.pop_front() else { break };
            // It may have heard something else since.
            if self.known.get(&uid).is_some_and(|(last, _)| *last == number) {
                self.known.remove(&uid);
            }
        }
        true
    }

    /// All is well with the pod again.
    pub fn forget(&mut self, uid: &str) {
        if !self.known.is_empty() {
            self.known.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_until_all_is_well() {
        let mut said = Said::default();
        assert!(said.is_news("u", "no owner"));
        assert!(!said.is_news("u", "no owner"));
        assert!(said.is_news("other", "no owner"));
        assert!(said.is_news("u", "no label"));
        assert!(said.is_news("u", "no owner"));
        said.forget("u");
        assert!(said.is_news("u", "no owner"));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut said = Said::default();
        for number in 0..=MOST {
            assert!(said.is_news(&number.to_string(), "no owner"));
        }
        assert_eq!((said.known.len(), said.order.len()), (MOST, MOST));
        assert!(said.is_news("0", "no owner"));
        assert!(!said.is_news(&MOST.to_string(), "no owner"));
    }
}
