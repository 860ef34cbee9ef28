//! Who a stream speaks for: a service account token, reviewed by Kubernetes, names the node that it is bound to.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
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

/// Answers that are remembered.
const MOST_REMEMBERED: usize = 16_384;

/// Reviews at once.
const MOST_REVIEWS: usize = 32;

/// How long a review may take.
const REVIEW: Duration = Duration::from_secs(10);

/// A token that opens no stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
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
    /// The node.
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<String, Denied>>;
}

/// Asks Kubernetes, and remembers the answer for a short time.
pub struct Reviewer {
    client: Client,
    accounts: Vec<String>,
    /// By the digest of the token: until when, and what.
    remembered: Mutex<HashMap<Digest, Remembered>>,
    reviews: Semaphore,
}

/// An answer and until when it holds.
type Remembered = (Instant, Result<String, Denied>);

// === impl Denied ===

impl Denied {
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

// === impl Reviewer ===

impl Reviewer {
    /// Believes these accounts, `system:serviceaccount:<namespace>:<name>`.
    pub fn new(client: Client, accounts: Vec<String>) -> Self {
        let reviews = Semaphore::new(MOST_REVIEWS);
        Self { client, accounts, remembered: Mutex::default(), reviews }
    }

    async fn review(&self, token: &str) -> Result<String, Denied> {
        let unknown = |error: String| Denied::Unknown(error);
        let _permit = self.reviews.acquire().await.map_err(|error| unknown(error.to_string()))?;
        let spec = TokenReviewSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let answer = tokio::time::timeout(REVIEW, api.create(&params, &review))
            .await
            .map_err(|_| unknown(format!("no answer for {REVIEW:?}")))?
            .map_err(|error| unknown(error.to_string()))?;
        decide(answer.status.unwrap_or_default(), &self.accounts)
    }
}

/// The node of a reviewed token.
fn decide(status: TokenReviewStatus, accounts: &[String]) -> Result<String, Denied> {
    if status.authenticated != Some(true) {
        let error = status.error.unwrap_or_else(|| "it is not valid".to_owned());
        return Err(Denied::Token(error.chars().take(256).collect()));
    }
    // A server that does not know audiences has not checked this one.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return Err(Denied::Token(format!("it is not for the audience {AUDIENCE}")));
    }
    let user = status.user.unwrap_or_default();
    let name = user.username.unwrap_or_default();
    if !accounts.contains(&name) {
        return Err(Denied::Account(name.chars().take(256).collect()));
    }
    let mut nodes = user.extra.unwrap_or_default().remove(NODE).unwrap_or_default();
    match (nodes.pop(), nodes.is_empty()) {
        (Some(node), true) if !node.is_empty() => Ok(node),
        _ => Err(Denied::NoNode),
    }
}

impl Authenticate for Reviewer {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<String, Denied>> {
        Box::pin(async move {
            if token.is_empty() || token.len() > LONGEST_TOKEN {
                return Err(Denied::Token(format!("it has {} bytes", token.len())));
            }
            let digest = Digest::of(token.as_bytes());
            let now = Instant::now();
            if let Some((until, answer)) = self.remembered.lock().get(&digest)
                && now < *until
            {
                return answer.clone();
            }
            let answer = self.review(token).await;
            let good_for = match &answer {
                Ok(_) => GOOD_FOR,
                Err(Denied::Unknown(_)) => return answer,
                Err(_) => BAD_FOR,
            };
            let mut remembered = self.remembered.lock();
            if remembered.len() >= MOST_REMEMBERED {
                remembered.retain(|_, (until, _)| now < *until);
            }
            if remembered.len() < MOST_REMEMBERED {
                remembered.insert(digest, (now + good_for, answer.clone()));
            }
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
}
