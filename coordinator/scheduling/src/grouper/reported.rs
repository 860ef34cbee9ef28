//! Of which pod which warning was recorded, so that nobody reads it twice. Of many pods the oldest are forgotten.

use super::bounded::Bounded;

/// Pods that are remembered.
const MAX_PODS: usize = 16 * 1024;

/// The message that was recorded, by the pod's uid.
#[derive(Debug)]
pub struct Reported(Bounded<String, String>);

// === impl Reported ===

impl Default for Reported {
    fn default() -> Self {
        Self(Bounded::new(MAX_PODS, usize::MAX))
    }
}

impl Reported {
    /// Whether this is news of the pod. If it is, it is remembered.
    pub fn is_news(&mut self, uid: &str, message: &str) -> bool {
        let news = self.0.get(uid).is_none_or(|reported| reported != message);
        if news {
            self.0.put(uid.to_owned(), message.to_owned(), 0);
        }
        news
    }

    /// All is well with the pod again.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_reported_once_until_all_is_well() {
        let mut reported = Reported::default();
        assert!(reported.is_news("u", "no owner"));
        assert!(!reported.is_news("u", "no owner"));
        assert!(reported.is_news("other", "no owner"));
        assert!(reported.is_news("u", "no label"));
        assert!(reported.is_news("u", "no owner"));
        reported.forget("u");
        assert!(reported.is_news("u", "no owner"));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut reported = Reported::default();
        for number in 0..=MAX_PODS {
            assert!(reported.is_news(&number.to_string(), "no owner"));
        }
        assert_eq!(reported.0.size().0, MAX_PODS);
        assert!(reported.is_news("0", "no owner"));
        assert!(!reported.is_news(&MAX_PODS.to_string(), "no owner"));
    }
}
