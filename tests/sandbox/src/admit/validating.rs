//! Validating webhooks, called side by side; and how any webhook is asked.

use futures::future::join_all;
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::matching::Hook;
use super::review::ReviewAnswer;
use super::{Admission, Attempt, review};

const CONFIGURATIONS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// Why a write does not pass a webhook.
#[derive(Debug)]
pub(super) enum Failure {
    /// The webhook could not be asked; its failure policy decides.
    Call(String),
    /// An answer that no failure policy overrides.
    Answer(Status),
}

// === impl Failure ===

impl Failure {
    /// Turns the failure into the refusal that the client sees, unless the webhook is to be ignored.
    pub(super) fn weigh(self, webhook: &Value) -> Result<(), Status> {
        let name = webhook["name"].as_str().unwrap_or_default();
        match self {
            Self::Answer(status) => Err(status),
            Self::Call(why) if webhook["failurePolicy"] == "Ignore" => {
                tracing::warn!(webhook = name, why, "failed calling webhook, failing open");
                Ok(())
            }
            Self::Call(why) => {
                Err(Status::internal(format!("failed calling webhook {name:?}: {why}")))
            }
        }
    }
}

// === impl Admission ===

impl Admission {
    pub(super) async fn call_validating(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let configurations = self.store.list(CONFIGURATIONS, None);
        let mut wanted = Vec::new();
        for configuration in &configurations {
            let hooks = configuration.value["webhooks"].as_array().into_iter().flatten();
            for (place, webhook) in hooks.enumerate() {
                let uid = meta::uid(&configuration.value);
                let hook = Hook { key: (uid, configuration.revision, place), webhook };
                if let Some(version) = self.wanted_version(&hook, attempt)? {
                    wanted.push((webhook, version));
                }
            }
        }
        let shared = &*attempt;
        let asked = wanted.iter().map(|(webhook, version)| async move {
            (*webhook, self.ask(shared, webhook, version, false).await)
        });
        let mut refusal = Ok(());
        for (webhook, verdict) in join_all(asked).await {
            let one = match verdict {
                Ok(verdict) => {
                    attempt.warnings.extend(verdict.warnings);
                    let name = webhook["name"].as_str().unwrap_or_default();
                    match verdict.allowed {
                        true => Ok(()),
                        false => Err(review::denial(name, &verdict.status)),
                    }
                }
                Err(failure) => failure.weigh(webhook),
            };
            refusal = refusal.and(one);
        }
        refusal
    }

    /// Asks one webhook.
    pub(super) async fn ask(
        &self,
        attempt: &Attempt<'_>,
        webhook: &Value,
        version: &str,
        mutating: bool,
    ) -> Result<ReviewAnswer, Failure> {
        let name = webhook["name"].as_str().unwrap_or_default();
        if attempt.dry_run
            && !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun"))
        {
            return Err(Failure::Answer(Status::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            ))));
        }
        let versions = webhook["admissionReviewVersions"].as_array().into_iter().flatten();
        let mut versions = versions.filter_map(Value::as_str);
        let review_version = versions.find(|v| matches!(*v, "v1" | "v1beta1")).ok_or_else(|| {
            Failure::Call(
                "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                    .into(),
            )
        })?;
        let timeout = webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30);
        let endpoint = Endpoint::of(&webhook["clientConfig"], timeout, &self.services, &self.store)
            .map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let question = review::question(attempt, version, review_version, &uid);
        let answer = self.client.post(&endpoint, timeout, &question).await;
        let answer =
            answer.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        review::verdict(&answer, review_version, &uid, mutating)
            .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))
    }
}
