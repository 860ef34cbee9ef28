//! Who a stream speaks for: a service account token, reviewed by Kubernetes, names the node that it is bound to.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_program::connections::{Slots, Source};
use muster_proto::delivery::Digest;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// What the token must be for.
pub const AUDIENCE: &str = "muster-coordinator";

/// Where Kubernetes says which node a token is bound to.
const NODE: &str = "authentication.kubernetes.io/node-name";

/// No token is longer.
const LONGEST_TOKEN: usize = 16 * 1024;

/// How long a good token is believed, and a bad one disbelieved.
const GOOD_FOR: Duration = Duration::from_secs(60);
const BAD_FOR: Duration = Duration::from_secs(10);

/// Answers of each kind that are remembered: more good ones than there are agents, whose tokens change rarely.
const MOST_GOOD: usize = 32_768;
const MOST_BAD: usize = 4096;

/// Reviews at once, and those that wait for one.
const MOST_REVIEWS: usize = 32;
const MOST_WAITING: usize = 2048;

/// Those of one source. 5,000 agents behind one address translation have shown their tokens within seconds: those that are turned
/// away come back.
const MOST_REVIEWS_OF_SOURCE: usize = 8;
const MOST_WAITING_OF_SOURCE: usize = 512;

/// How long a review may take, and the wait for it.
const REVIEW: Duration = Duration::from_secs(10);

/// A token that opens no stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticateError {
    /// It proves nothing.
    #[error("the token is refused: {0}")]
    Token(String),
    /// It is somebody else's.
    #[error("{0} is no account of an agent")]
    Account(String),
    /// It is bound to no node.
    #[error("the token is not bound to a node; it must be a projected token of a pod")]
    NoNode,
    /// Nobody could say.
    #[error("the token could not be reviewed: {0}")]
    Unknown(String),
}

/// Says which node a token speaks for.
pub trait Authenticate: Send + Sync + 'static {
    /// The node. The token came from `source`.
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        source: Source,
    ) -> BoxFuture<'a, Result<String, AuthenticateError>>;
}

/// Asks Kubernetes, and remembers the answer for a short time.
pub struct Reviewer {
    client: Client,
    accounts: Vec<String>,
    answers: Mutex<Answers>,
    reviews: Slots,
    waiting: Semaphore,
}

/// Answers by the digest of the token, and until when they hold. Whoever invents tokens fills the bad ones only.
#[derive(Debug, Default)]
struct Answers {
    good: HashMap<Digest, (Instant, String)>,
    bad: HashMap<Digest, (Instant, AuthenticateError)>,
}

// === impl AuthenticateError ===

impl AuthenticateError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Token(_) => "token-refused",
            Self::Account(_) => "account-refused",
            Self::NoNode => "token-without-node",
            Self::Unknown(_) => "review-failed",
        }
    }
}

// === impl Answers ===

impl Answers {
    fn recall(&self, token: &Digest, now: Instant) -> Option<Result<String, AuthenticateError>> {
        match (self.good.get(token), self.bad.get(token)) {
            (Some((until, node)), _) if now < *until => Some(Ok(node.clone())),
            (_, Some((until, denied))) if now < *until => Some(Err(denied.clone())),
            _ => None,
        }
    }

    fn remember(
        &mut self,
        token: Digest,
        now: Instant,
        answer: &Result<String, AuthenticateError>,
    ) {
        match answer {
            Ok(node) => {
                self.bad.remove(&token);
                if self.good.len() >= MOST_GOOD {
                    self.good.retain(|_, (until, _)| now < *until);
                }
                if self.good.len() < MOST_GOOD {
                    self.good.insert(token, (now + GOOD_FOR, node.clone()));
                }
            }
            // Nobody could say; another may.
            Err(AuthenticateError::Unknown(_)) => {}
            Err(denied) => {
                self.good.remove(&token);
                // They hold for seconds, and who has 4096 bad ones has no trouble making more.
                if self.bad.len() >= MOST_BAD {
                    self.bad.clear();
                }
                self.bad.insert(token, (now + BAD_FOR, denied.clone()));
            }
        }
    }
}

// === impl Reviewer ===

impl Reviewer {
    /// Believes these accounts, `system:serviceaccount:<namespace>:<name>`.
    pub fn new(client: Client, accounts: Vec<String>) -> Self {
        let reviews = Slots::new(MOST_REVIEWS, MOST_REVIEWS_OF_SOURCE, MOST_WAITING_OF_SOURCE);
        let waiting = Semaphore::new(MOST_WAITING);
        Self { client, accounts, answers: Mutex::default(), reviews, waiting }
    }

    /// Asks, unless too many wait to ask. The wait is a part of the time that a review may take.
    async fn review(&self, token: &str, source: Source) -> Result<String, AuthenticateError> {
        let busy = |_| AuthenticateError::Unknown("too many tokens wait to be reviewed".to_owned());
        let _waits = self.waiting.try_acquire().map_err(busy)?;
        let late = |_| AuthenticateError::Unknown(format!("no answer for {REVIEW:?}"));
        tokio::time::timeout(REVIEW, self.ask(token, source)).await.map_err(late)?
    }

    async fn ask(&self, token: &str, source: Source) -> Result<String, AuthenticateError> {
        let unknown = |error: String| AuthenticateError::Unknown(error);
        let slot = self.reviews.take(source).await;
        let _slot = slot.map_err(|error| unknown(error.to_string()))?;
        let spec = TokenReviewSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let answer = api.create(&params, &review).await;
        let answer = answer.map_err(|error| unknown(error.to_string()))?;
        decide(answer.status.unwrap_or_default(), &self.accounts)
    }
}

/// The node of a reviewed token.
fn decide(status: TokenReviewStatus, accounts: &[String]) -> Result<String, AuthenticateError> {
    if status.authenticated != Some(true) {
        let error = status.error.unwrap_or_else(|| "it is not valid".to_owned());
        return Err(AuthenticateError::Token(error.chars().take(256).collect()));
    }
    // A server that does not know audiences has not checked this one.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return Err(AuthenticateError::Token(format!("it is not for the audience {AUDIENCE}")));
    }
    let user = status.user.unwrap_or_default();
    let name = user.username.unwrap_or_default();
    if !accounts.contains(&name) {
        return Err(AuthenticateError::Account(name.chars().take(256).collect()));
    }
    let mut nodes = user.extra.unwrap_or_default().remove(NODE).unwrap_or_default();
    match (nodes.pop(), nodes.is_empty()) {
        (Some(node), true) if !node.is_empty() => Ok(node),
        _ => Err(AuthenticateError::NoNode),
    }
}

impl Authenticate for Reviewer {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        source: Source,
    ) -> BoxFuture<'a, Result<String, AuthenticateError>> {
        Box::pin(async move {
            if token.is_empty() || token.len() > LONGEST_TOKEN {
                return Err(AuthenticateError::Token(format!("it has {} bytes", token.len())));
            }
            let digest = Digest::of(token.as_bytes());
            if let Some(answer) = self.answers.lock().recall(&digest, Instant::now()) {
                return answer;
            }
            let answer = self.review(token, source).await;
            self.answers.lock().remember(digest, Instant::now(), &answer);
            answer
        })
    }
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    #[test]
    fn only_a_bound_token_of_an_agents_account_names_a_node() {
        let accounts = ["system:serviceaccount:muster:muster-agent".to_owned()];
        let status = |audience: &str, name: &str, nodes: &[&str]| TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![audience.to_owned()]),
            user: Some(UserInfo {
                username: Some(name.to_owned()),
                extra: Some(
                    [(NODE.to_owned(), nodes.iter().map(|n| (*n).to_owned()).collect())].into(),
                ),
                ..UserInfo::default()
            }),
            error: None,
        };
        let agent = "system:serviceaccount:muster:muster-agent";
        let reason = |status| decide(status, &accounts).map_err(|denied| denied.reason());
        assert_eq!(reason(status(AUDIENCE, agent, &["n1"])), Ok("n1".to_owned()));
        assert_eq!(reason(status("api", agent, &["n1"])), Err("token-refused"));
        assert_eq!(
            reason(status(AUDIENCE, "system:serviceaccount:x:muster-agent", &["n1"])),
            Err("account-refused")
        );
        assert_eq!(reason(status(AUDIENCE, agent, &[])), Err("token-without-node"));
        assert_eq!(reason(status(AUDIENCE, agent, &["n1", "n2"])), Err("token-without-node"));
        assert_eq!(reason(TokenReviewStatus::default()), Err("token-refused"));
    }

    #[test]
    fn invented_tokens_do_not_push_out_good_ones() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let good = Digest::of(b"good");
        answers.remember(good, now, &Ok("n1".to_owned()));
        let denied = Err(AuthenticateError::Token("invented".to_owned()));
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        for number in 0..3 * MOST_BAD {
            answers.remember(digest(number), now, &denied);
            assert!(answers.bad.len() <= MOST_BAD);
        }
        assert_eq!(answers.recall(&good, now), Some(Ok("n1".to_owned())));
        assert_eq!(answers.recall(&digest(3 * MOST_BAD - 1), now), Some(denied));
        assert_eq!(answers.recall(&good, now + GOOD_FOR), None, "an answer grows old");
        let late = now + GOOD_FOR;
        for number in 0..MOST_GOOD + 10 {
            answers.remember(digest(number), late, &Ok("n".to_owned()));
        }
        assert_eq!(answers.good.len(), MOST_GOOD);
        assert_eq!(answers.recall(&digest(MOST_GOOD), late), None, "those that hold stay");
        answers.remember(digest(0), late, &Err(AuthenticateError::NoNode));
        assert_eq!(answers.recall(&digest(0), late), Some(Err(AuthenticateError::NoNode)));
    }

    /// An API that accepts connections and never answers.
    async fn mute() -> (Client, tokio::net::TcpListener) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(url.parse().unwrap());
        (Client::try_from(config).unwrap(), listener)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_waits_no_longer_than_a_review_may_take_and_not_all_may_wait() {
        let (client, _listener) = mute().await;
        let reviewer = Reviewer::new(client, Vec::new());
        let began = Instant::now();
        let tokens: Vec<String> = (0..MOST_WAITING + 7).map(|token| token.to_string()).collect();
        // No source has too many of them.
        let asked = tokens.iter().enumerate().map(|(at, token)| {
            let source = Source::of([10, 0, 0, (at % 16) as u8].into());
            reviewer.authenticate(token, source)
        });
        let answers = futures::future::join_all(asked).await;
        let took = began.elapsed();
        assert!(took < REVIEW * 2, "{took:?}");
        let message = |answer: Result<String, AuthenticateError>| answer.unwrap_err().to_string();
        let turned_away =
            answers.into_iter().map(message).filter(|text| text.contains("too many tokens"));
        assert_eq!(turned_away.count(), 7);
    }

    /// An API that knows one token and says nothing about others.
    fn knows(good: &'static str) -> Client {
        let answer = move |request: http::Request<kube::client::Body>| async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let review: TokenReview = serde_json::from_slice(&body).unwrap();
            if review.spec.token.as_deref() != Some(good) {
                std::future::pending::<()>().await;
            }
            let answer = serde_json::json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {},
                "status": {
                    "authenticated": true, "audiences": [AUDIENCE],
                    "user": { "username": "agent", "extra": { NODE: ["n1"] } },
                },
            });
            let body = kube::client::Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_with_many_bad_tokens_does_not_delay_another() {
        let reviewer = Reviewer::new(knows("good"), vec!["agent".to_owned()]);
        let flood = Source::of([10, 0, 0, 1].into());
        let tokens: Vec<String> = (0..1000).map(|token| token.to_string()).collect();
        let asked = tokens.iter().map(|token| reviewer.authenticate(token, flood));
        let flooded = futures::future::join_all(asked);
        let began = Instant::now();
        let good = async {
            tokio::task::yield_now().await;
            let answer = reviewer.authenticate("good", Source::of([10, 0, 0, 2].into())).await;
            (answer, began.elapsed())
        };
        let (answers, (good, took)) = tokio::join!(flooded, good);
        assert_eq!((good, took), (Ok("n1".to_owned()), Duration::ZERO));
        let turned_away = answers.into_iter().filter(|answer| {
            answer.as_ref().is_err_and(|why| why.to_string().contains("same source"))
        });
        assert_eq!(turned_away.count(), 1000 - MOST_REVIEWS_OF_SOURCE - MOST_WAITING_OF_SOURCE);
    }
}
