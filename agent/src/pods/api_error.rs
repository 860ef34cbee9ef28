//! What to make of the API's no: a word for metrics, a sentence for a person, and when to ask again.

use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher;
use muster_program::causes;
use rand::Rng;

/// First and longest pause before something is asked again.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// Nobody is waited for longer than this, whatever they say.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// A request that was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status; 0 when there was no answer.
    pub code: u16,
    /// One word for metrics.
    pub reason: &'static str,
    /// What is wrong and what can be done.
    pub message: String,
    /// When the API wants to be asked again.
    pub retry_after: Option<Duration>,
}

// === impl ApiError ===

impl ApiError {
    /// Of a request that needs this permission, `get nodes`.
    pub fn of(error: &kube::Error, permission: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status, permission),
            other => Self {
                code: 0,
                reason: "unreachable",
                message: format!("{permission}: the API does not answer: {}", cut(&causes(other))),
                retry_after: None,
            },
        }
    }

    /// Of a watch.
    pub fn of_watch(error: &watcher::Error, permission: &str) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(error, permission),
            watcher::Error::WatchError(status) => Self::of_status(status, permission),
            watcher::Error::NoResourceVersion => Self {
                code: 0,
                reason: "malformed",
                message: format!("{permission}: the API sent a list without a resourceVersion"),
                retry_after: None,
            },
        }
    }

    fn of_status(status: &Status, permission: &str) -> Self {
        let said = cut(&status.message);
        let (reason, message) = match status.code {
            401 => (
                "unauthorized",
                format!(
                    "the API does not know the agent's token ({said}); is its service account there?"
                ),
            ),
            403 => (
                "forbidden",
                format!(
                    "the agent's service account may not {permission} ({said}); add this to its ClusterRole"
                ),
            ),
            404 => ("not-found", format!("{permission}: {said}")),
            409 => ("conflict", format!("{permission}: {said}")),
            410 => {
                ("expired", format!("{permission}: the watch was too old and begins anew ({said})"))
            }
            422 => ("invalid", format!("{permission}: the API refuses the object: {said}")),
            429 => ("throttled", format!("{permission}: the API is busy: {said}")),
            500.. => ("server-error", format!("{permission}: the API has an error: {said}")),
            code => ("refused", format!("{permission}: the API says {code}: {said}")),
        };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let asked = Duration::from_secs(u64::from(seconds)).min(LONGEST_ASKED);
        let retry_after = (seconds > 0).then_some(asked);
        Self { code: status.code, reason, message, retry_after }
    }
}

/// How long to wait before the next attempt: twice as long each time, with a quarter of chance so that a thousand
/// agents do not ask in step, and never less than the API asked for.
pub fn pause(attempts: u32, asked: Option<Duration>) -> Duration {
    let grown = FIRST.saturating_mul(2_u32.saturating_pow(attempts.min(16))).min(LONGEST);
    let jittered = grown.mul_f64(rand::rng().random_range(0.75..1.25));
    jittered.max(asked.unwrap_or_default())
}

fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_word_and_says_what_can_be_done() {
        let of = |code: u16| {
            let status: Status =
                serde_json::from_value(serde_json::json!({"code": code, "message": "said",
                "details": {"retryAfterSeconds": 7}}))
                .unwrap();
            ApiError::of(&kube::Error::Api(Box::new(status)), "patch pods")
        };
        for (code, reason, words) in [
            (401, "unauthorized", "service account"),
            (403, "forbidden", "may not patch pods"),
            (409, "conflict", "said"),
            (410, "expired", "anew"),
            (429, "throttled", "busy"),
            (500, "server-error", "error"),
            (503, "server-error", "error"),
            (418, "refused", "418"),
        ] {
            let refusal = of(code);
            assert_eq!((refusal.code, refusal.reason), (code, reason));
            assert!(refusal.message.contains(words), "{}", refusal.message);
            assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_respect_what_the_api_asks() {
        for attempts in [0, 1, 5, 40, u32::MAX] {
            let pause = pause(attempts, None);
            assert!(pause >= FIRST.mul_f64(0.75) && pause <= LONGEST.mul_f64(1.25), "{pause:?}");
        }
        assert!(pause(9, None) > pause(0, None));
        assert!(pause(0, Some(Duration::from_secs(60))) >= Duration::from_secs(60));
    }
}
