//! One lock for each job that somebody works on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::controllers::dijob::Key;

/// All of them. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Locks(Arc<Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>>);

/// A job that nobody else works on.
pub struct Locked {
    locks: Locks,
    key: Key,
    guard: Option<OwnedMutexGuard<()>>,
}

// === impl Locks ===

impl Locks {
    /// Waits until nobody works on the job.
    pub async fn lock(&self, key: Key) -> Locked {
        let lock = Arc::clone(self.0.lock().entry(key.clone()).or_default());
        // Whoever gives up leaves nothing behind either.
        let mut locked = Locked { locks: self.clone(), key, guard: None };
        locked.guard = Some(lock.lock_owned().await);
        locked
    }

    /// Waits until nobody works on any of these. All take them in the same order: nobody waits for whom it holds up.
    pub async fn lock_all(&self, keys: BTreeSet<Key>) -> Vec<Locked> {
        let mut locked = Vec::with_capacity(keys.len());
        for key in keys {
            locked.push(self.lock(key).await);
        }
        locked
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut all = self.locks.0.lock();
        drop(self.guard.take());
        // Whoever waits for it holds it too.
        if all.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let locks = Locks::default();
        let key = || ("rl".to_owned(), "cartpole".to_owned());
        let first = locks.lock(key()).await;
        let own = locks.clone();
        let second = tokio::spawn(async move { drop(own.lock(key()).await) });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
        assert!(locks.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_nothing_behind() {
        let locks = Locks::default();
        let key = |job: &str| ("rl".to_owned(), job.to_owned());
        let first = locks.lock(key("qbert")).await;
        let both = BTreeSet::from([key("cartpole"), key("qbert")]);
        let waited = tokio::time::timeout(std::time::Duration::from_secs(1), locks.lock_all(both));
        assert!(waited.await.is_err());
        drop(first);
        assert!(locks.0.lock().is_empty());
    }
}
