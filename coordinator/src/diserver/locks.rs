//! One lock for each job that somebody works on.

use std::collections::HashMap;
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
        let guard = lock.lock_owned().await;
        Locked { locks: self.clone(), key, guard: Some(guard) }
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
}
