//! What is said of a watch: once when it fails, once when it works again. Between these it is tried again and again.

use kube::runtime::watcher;
use muster_program::causes;

/// Of one watch.
#[derive(Debug)]
pub struct Words {
    kind: String,
    /// What is wrong, while something is.
    said: Option<String>,
}

// === impl Words ===

impl Words {
    /// Of a watch of this kind that has not failed.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), said: None }
    }

    /// It failed; whether that is news.
    pub fn failed(&mut self, error: &watcher::Error) -> bool {
        let text = causes(error);
        let news = self.said.as_ref() != Some(&text);
        if news {
            tracing::warn!(kind = %self.kind, reason = "watch", "the API server cannot be followed: {text}");
            self.said = Some(text);
        }
        news
    }

    /// The API server has answered; whether that is news.
    pub fn works(&mut self) -> bool {
        let news = self.said.take().is_some();
        if news {
            tracing::info!(kind = %self.kind, reason = "watch", "the API server is followed again");
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_once_until_it_is_another_or_over() {
        let lost = |why: &str| watcher::Error::WatchFailed(kube::Error::Service(why.into()));
        let mut words = Words::of("Pod");
        assert!(!words.works());
        assert!(words.failed(&lost("refused")));
        assert!(!words.failed(&lost("refused")));
        assert!(words.failed(&lost("no route")));
        assert!(words.works());
        assert!(!words.works());
        assert!(words.failed(&lost("no route")));
    }
}
