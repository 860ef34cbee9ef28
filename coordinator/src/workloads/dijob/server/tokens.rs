//! Bearer tokens: Kubernetes says whose they are and what that user may do. Its answers hold for a short time.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_dijob::api::{GROUP, VERSION};
use muster_dijob::names::{AUDIENCE, JOBS, REPLICAS};
use muster_dijob::server::trust::{Right, TokenError};
use muster_proto::delivery::Digest;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::remembered::Remembered;

/// No token is longer.
const LONGEST: usize = 16 * 1024;

/// How long a token is believed, one that is refused is refused, and a right is there or not.
const GOOD_FOR: Duration = Duration::from_secs(60);
const BAD_FOR: Duration = Duration::from_secs(10);
const RIGHT_FOR: Duration = Duration::from_secs(10);

/// Answers of each kind that are remembered. What is invented fills the refused ones only.
const MOST: usize = 4096;

/// Reviews at once, and those that wait for one.
const MOST_REVIEWS: usize = 16;
const MOST_WAITING: usize = 256;

/// How long both reviews of a request may take, and the wait for them.
const REVIEW: Duration = Duration::from_secs(10);

/// Why a token does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReviewError {
    /// It does not.
    Refused(TokenError),
    /// Nobody could say.
    Unknown(String),
}

/// Asks Kubernetes.
pub(super) struct Reviews {
    client: Client,
    users: Mutex<Remembered<Digest, UserInfo>>,
    refused: Mutex<Remembered<Digest, String>>,
    rights: Mutex<Remembered<(Digest, Right), bool>>,
    reviews: Semaphore,
    waiting: Semaphore,
}

// === impl Reviews ===

impl Reviews {
    /// Asks this API server.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            users: Mutex::new(Remembered::new(MOST)),
            refused: Mutex::new(Remembered::new(MOST)),
            rights: Mutex::new(Remembered::new(MOST)),
            reviews: Semaphore::new(MOST_REVIEWS),
            waiting: Semaphore::new(MOST_WAITING),
        }
    }

    /// Whether the token is that of a user with this right.
    pub async fn check(&self, token: &str, right: &Right) -> Result<(), ReviewError> {
        let invalid = |why: String| ReviewError::Refused(TokenError::Invalid(why));
        if token.is_empty() || token.len() > LONGEST {
            return Err(invalid(format!("it has {} bytes", token.len())));
        }
        let (digest, now) = (Digest::of(token.as_bytes()), Instant::now());
        if let Some(why) = self.refused.lock().get(&digest, now) {
            return Err(invalid(why));
        }
        let user = self.users.lock().get(&digest, now);
        let allowed = self.rights.lock().get(&(digest, right.clone()), now);
        let (user, allowed) = match (user, allowed) {
            (Some(user), Some(allowed)) => (user, allowed),
            (user, _) => {
                let unknown = |why: &str| ReviewError::Unknown(why.to_owned());
                let waits = self.waiting.try_acquire();
                let _waits = waits.map_err(|_| unknown("too many tokens wait to be reviewed"))?;
                let asked = timeout(REVIEW, self.ask(token, digest, user, right)).await;
                asked.map_err(|_| unknown("the API server did not review the token in time"))??
            }
        };
        match allowed {
            true => Ok(()),
            false => Err(ReviewError::Refused(TokenError::Forbidden(name(&user)))),
        }
    }

    /// Asks what is not known.
    async fn ask(
        &self,
        token: &str,
        digest: Digest,
        user: Option<UserInfo>,
        right: &Right,
    ) -> Result<(UserInfo, bool), ReviewError> {
        let _permit = self.reviews.acquire().await.map_err(|error| unknown(&error))?;
        let user = match user {
            Some(user) => user,
            None => {
                let status = self.review(token).await?;
                let (user, now) = (user_of(status), Instant::now());
                match &user {
                    Ok(user) => self.users.lock().put(digest, user.clone(), GOOD_FOR, now),
                    Err(why) => self.refused.lock().put(digest, why.clone(), BAD_FOR, now),
                };
                user.map_err(|why| ReviewError::Refused(TokenError::Invalid(why)))?
            }
        };
        let allowed = self.may(&user, right).await?;
        self.rights.lock().put((digest, right.clone()), allowed, RIGHT_FOR, Instant::now());
        Ok((user, allowed))
    }

    async fn review(&self, token: &str) -> Result<TokenReviewStatus, ReviewError> {
        let spec = TokenReviewSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        Ok(answer.map_err(|error| unknown(&error))?.status.unwrap_or_default())
    }

    async fn may(&self, user: &UserInfo, right: &Right) -> Result<bool, ReviewError> {
        let review =
            SubjectAccessReview { spec: spec(user, right), ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| unknown(&error))?.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }
}

fn unknown(error: &dyn std::fmt::Display) -> ReviewError {
    ReviewError::Unknown(format!("the token could not be reviewed: {error}"))
}

fn name(user: &UserInfo) -> String {
    user.username.iter().flat_map(|name| name.chars()).take(256).collect()
}

/// The user of a reviewed token, or why it is refused.
fn user_of(status: TokenReviewStatus) -> Result<UserInfo, String> {
    if status.authenticated != Some(true) {
        let error = status.error.unwrap_or_else(|| "it is not valid".to_owned());
        return Err(error.chars().take(256).collect());
    }
    // A server that does not know audiences has not checked this one.
    if !status.audiences.unwrap_or_default().iter().any(|audience| audience == AUDIENCE) {
        return Err(format!("it is not for the audience {AUDIENCE}"));
    }
    let user = status.user.unwrap_or_default();
    match user.username.as_deref() {
        None | Some("") => Err("it names no user".to_owned()),
        Some(_) => Ok(user),
    }
}

/// What is asked about a user.
fn spec(user: &UserInfo, right: &Right) -> SubjectAccessReviewSpec {
    let text = |text: &str| Some(text.to_owned());
    let attributes = ResourceAttributes {
        group: text(GROUP),
        version: text(VERSION),
        resource: text(JOBS),
        subresource: text(REPLICAS),
        verb: text(right.verb),
        namespace: right.namespace.as_deref().and_then(text),
        name: right.job.as_deref().and_then(text),
        ..ResourceAttributes::default()
    };
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        groups: user.groups.clone(),
        uid: user.uid.clone(),
        extra: user.extra.clone(),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_for_our_audience_names_a_user() {
        let status = |authenticated: bool, audience: &str, name: &str| TokenReviewStatus {
            authenticated: Some(authenticated),
            audiences: Some(vec![audience.to_owned()]),
            user: Some(UserInfo { username: Some(name.to_owned()), ..UserInfo::default() }),
            error: None,
        };
        assert_eq!(
            user_of(status(true, AUDIENCE, "jane")).map(|user| name(&user)),
            Ok("jane".to_owned())
        );
        for (status, why) in [
            (status(false, AUDIENCE, "jane"), "not valid"),
            (status(true, "https://kubernetes.default.svc", "jane"), "audience muster-di-server"),
            (status(true, AUDIENCE, ""), "no user"),
            (TokenReviewStatus::default(), "not valid"),
        ] {
            let found = user_of(status).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn the_right_is_asked_for_on_the_subresource_of_the_very_job() {
        let user = UserInfo {
            username: Some("jane".to_owned()),
            groups: Some(vec!["rl".to_owned()]),
            ..UserInfo::default()
        };
        let right = Right {
            verb: "create",
            namespace: muster_kube::Namespace::parse("rl").ok(),
            job: muster_kube::Name::parse("cartpole").ok(),
        };
        let asked = serde_json::to_value(spec(&user, &right)).unwrap();
        assert_eq!(
            asked,
            serde_json::json!({"user": "jane", "groups": ["rl"], "resourceAttributes": {
                "group": "diengine.opendilab.org", "version": "v1alpha1", "resource": "dijobs", "subresource": "replicas",
                "verb": "create", "namespace": "rl", "name": "cartpole"}})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_wait_no_longer_than_a_review_may_take_and_not_all_may_wait() {
        // It accepts connections and never answers.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let (reviews, right) =
            (Reviews::new(client), Right { verb: "get", namespace: None, job: None });
        let tokens: Vec<String> = (0..MOST_WAITING + 7).map(|token| token.to_string()).collect();
        let began = Instant::now();
        let asked = tokens.iter().map(|token| reviews.check(token, &right));
        let answers = futures::future::join_all(asked).await;
        assert!(began.elapsed() < REVIEW * 2);
        let turned_away = ReviewError::Unknown("too many tokens wait to be reviewed".to_owned());
        assert_eq!(answers.iter().filter(|answer| **answer == Err(turned_away.clone())).count(), 7);
    }
}
