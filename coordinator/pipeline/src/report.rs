//! What a trainer reports of its progress, and whether it may.
//!
//! A report is sent to the path of one job with a token whose audience is that path. Nobody else's token fits, and a token of
//! one namespace reaches no other.

use jiff::Timestamp;
use muster_api::names::{API_VERSION, TRAIN_JOB};
use muster_api::status::TrainerStatus;
use muster_kube::{Name, NameError, Namespace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// No report is longer.
pub const LARGEST: usize = 64 * 1024;

/// Who owns what was reported.
pub const FIELD_MANAGER: &str = "trainer-status";

/// The job that a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
}

/// Why a path leads to no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is not the path of a job's reports.
    #[error("reports are sent with POST to the path in KUBEFLOW_TRAINER_SERVER_URL")]
    Elsewhere,
    /// No job can be called so: the name could lead to another object when it is asked for.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How far the training is; without it nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer_status: Option<TrainerStatus>,
}

// === impl Report ===

impl Report {
    /// Reads a body; fields that nobody knows are left out.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
    }
}

// === impl Place ===

impl Place {
    /// The job whose reports go to a path.
    pub fn of_path(path: &str) -> Result<Self, PathError> {
        let (namespace, name) = parts(path).ok_or(PathError::Elsewhere)?;
        let namespace = Namespace::parse(namespace)?;
        Ok(Self { namespace, name: Name::parse(name).map_err(|error| error.of("TrainJob"))? })
    }

    /// What a token must be for, and, below `/apis/`, the path.
    pub fn audience(&self) -> String {
        audience(&self.namespace, &self.name)
    }

    /// Whether a user whose token has this audience may report: a service account of the job's namespace.
    pub fn may_be_told_by(&self, user: &str) -> bool {
        let account = user.strip_prefix("system:serviceaccount:");
        let namespace = account.and_then(|account| account.split_once(':'));
        namespace.is_some_and(|(namespace, _)| self.namespace == *namespace)
    }

    /// What is to be applied to the job's status.
    pub fn application(&self, status: &TrainerStatus) -> Value {
        let Self { namespace, name } = self;
        // Kubernetes counts in seconds.
        let second = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
        let time = status.last_updated_time.map(second);
        let status = TrainerStatus { last_updated_time: time, ..status.clone() };
        json!({
            "apiVersion": API_VERSION, "kind": TRAIN_JOB,
            "metadata": {"namespace": namespace, "name": name}, "status": {"trainerStatus": status},
        })
    }
}

/// The token of an `Authorization` header: two words, the first is `Bearer`.
pub fn token(header: &str) -> Option<&str> {
    let mut words = header.split_ascii_whitespace();
    let (scheme, token) = (words.next()?, words.next()?);
    (words.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then_some(token)
}

/// What a token must be for that reports for a job, and, below `/apis/`, the path.
pub fn audience(namespace: &str, name: &str) -> String {
    format!("{API_VERSION}/namespaces/{namespace}/trainjobs/{name}/status")
}

/// Namespace and name in the path of a job's reports, as they are written.
fn parts(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/apis/")?.strip_prefix(API_VERSION)?;
    let (namespace, rest) = rest.strip_prefix("/namespaces/")?.split_once('/')?;
    Some((namespace, rest.strip_prefix("trainjobs/")?.strip_suffix("/status")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            namespace: Namespace::parse("team-a").unwrap(),
            name: Name::parse("mnist").unwrap(),
        }
    }

    #[test]
    fn a_path_names_one_job_and_nothing_that_leads_elsewhere() {
        let path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/mnist/status";
        assert_eq!(Place::of_path(path), Ok(place()));
        assert_eq!(format!("/apis/{}", place().audience()), path);
        for odd in [
            "/",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/mnist",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/mnist/status/",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces//trainjobs/mnist/status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs//status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/../status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/a/b/status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/a%2Fb/status",
            "/apis/trainer.kubeflow.org/v1/namespaces/team-a/trainjobs/mnist/status",
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainingruntimes/mnist/status",
        ] {
            assert!(Place::of_path(odd).is_err(), "{odd}");
        }
        let long = "a".repeat(300);
        for name in ["MNIST", "a?b", "..", "a%2Fb", long.as_str()] {
            let odd = path.replace("mnist", name);
            let error = Place::of_path(&odd).unwrap_err().to_string();
            let shown: String = name.chars().take(64).collect();
            assert!(error.starts_with(&format!("TrainJob \"{shown}")), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_path_that_is_taken_is_the_path_that_is_asked_for(
            namespace in "[a-zA-Z0-9./?%#-]{0,12}", name in "[a-zA-Z0-9./?%#-]{0,12}|\\PC{0,300}",
        ) {
            let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/trainjobs/{name}/status");
            if let Ok(place) = Place::of_path(&path) {
                proptest::prop_assert_eq!(format!("/apis/{}", place.audience()), path.as_str());
                proptest::prop_assert_eq!(path.split('/').count(), 9);
                proptest::prop_assert!(!path.contains(['?', '#', '%']));
            }
        }
    }

    #[test]
    fn only_accounts_of_the_namespace_may_report() {
        let may = |user: &str| place().may_be_told_by(user);
        assert!(may("system:serviceaccount:team-a:default"));
        assert!(!may("system:serviceaccount:team-b:default"));
        assert!(!may("system:serviceaccount:team-a"));
        assert!(!may("team-a"));
    }

    #[test]
    fn a_token_is_the_second_of_two_words() {
        assert_eq!(token("Bearer x.y"), Some("x.y"));
        assert_eq!(token("bearer  x.y "), Some("x.y"));
        for odd in ["", "Bearer", "x.y", "Basic x.y", "Bearer x y"] {
            assert_eq!(token(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_report_is_read_leniently_and_applied_without_what_nobody_knows() {
        let text = r#"{"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime":
            "2026-01-02T03:04:05.678Z", "metrics": [{"name": "loss", "value": "0.1"}], "odd": 1}}"#;
        let report = Report::read(text.as_bytes()).unwrap();
        let applied = place().application(&report.trainer_status.unwrap());
        assert_eq!(
            applied["status"],
            json!({"trainerStatus": {"progressPercentage": 42,
                "lastUpdatedTime": "2026-01-02T03:04:05Z", "metrics": [{"name": "loss", "value": "0.1"}]}})
        );
        assert_eq!(Report::read(b"{}"), Ok(Report::default()));
        for odd in ["", "[]", r#"{"trainerStatus": 3}"#, r#"{"trainerStatus": {"metrics": {}}}"#] {
            assert!(Report::read(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
