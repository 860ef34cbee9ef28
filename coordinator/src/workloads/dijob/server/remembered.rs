//! Answers that hold for a short time, and never more than so many of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Answers by what was asked.
#[derive(Debug)]
pub(super) struct Remembered<K, V> {
    most: usize,
    answers: HashMap<K, (Instant, V)>,
}

// === impl Remembered ===

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most, answers: HashMap::new() }
    }

    /// The answer, if it still holds.
    pub fn get(&self, asked: &K, now: Instant) -> Option<V> {
        self.answers.get(asked).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    /// Holds for so long. False if there is no room: those that hold stay.
    pub fn put(&mut self, asked: K, answer: V, holds: Duration, now: Instant) -> bool {
        if self.answers.len() >= self.most && !self.answers.contains_key(&asked) {
            self.answers.retain(|_, (until, _)| now < *until);
            if self.answers.len() >= self.most {
                return false;
            }
        }
        self.answers.insert(asked, (now + holds, answer));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_time_and_gives_way_to_none_that_came_later() {
        let (mut known, now) = (Remembered::new(2), Instant::now());
        let second = Duration::from_secs(1);
        assert!(known.put("a", 1, second, now) && known.put("b", 2, 3 * second, now));
        assert!(!known.put("c", 3, second, now), "there is no room");
        assert!(known.put("a", 4, second, now), "the same once more");
        assert_eq!((known.get(&"a", now), known.get(&"c", now)), (Some(4), None));
        let later = now + second;
        assert_eq!(known.get(&"a", later), None);
        assert!(known.put("c", 3, second, later), "what is over makes room");
        assert_eq!((known.get(&"b", later), known.get(&"c", later)), (Some(2), Some(3)));
    }
}
