//! One lock for each key that somebody works on.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// All of them. Copies share them.
#[derive(Clone, Debug)]
pub struct Locks<K>(Arc<Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>>);

/// A key that nobody else works on, until this is dropped.
pub struct Locked<K: Eq + Hash> {
    locks: Locks<K>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

// === impl Locks ===

impl<K> Default for Locks<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Ord + Hash> Locks<K> {
    /// Waits until nobody works on the key.
    pub async fn lock(&self, key: K) -> Locked<K> {
        let lock = Arc::clone(self.0.lock().entry(key.clone()).or_default());
        // Whoever gives up leaves nothing behind either.
        let mut locked = Locked { locks: Locks(Arc::clone(&self.0)), key, guard: None };
        locked.guard = Some(lock.lock_owned().await);
        locked
    }

    /// Waits until nobody works on any of these. All take them in the same order: nobody waits for whom it holds up.
    pub async fn lock_all(&self, keys: BTreeSet<K>) -> Vec<Locked<K>> {
        let mut locked = Vec::with_capacity(keys.len());
        for key in keys {
            locked.push(self.lock(key).await);
        }
        locked
    }
}

impl<K: Eq + Hash> Drop for Locked<K> {
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
