//! What an operator may set.

use muster_ranktable::inject::Injection;

/// What an operator may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether trainers may report their progress (gate `TrainJobStatus`).
    pub train_job_status: bool,
    /// The namespace of the Service and the Secret below.
    pub namespace: String,
    /// The Service that takes reports.
    pub status_service: String,
    /// Port of the Service that takes progress reports.
    pub status_port: u16,
    /// The Secret with the certificate that reports are sent to; its `ca.crt` goes to the trainers.
    pub status_secret: String,
    /// What pods of a rank group are given.
    pub injection: Injection,
    /// Schedulers that are ours: pods that name one are put into PodGroups with queue and subgroups.
    pub schedulers: Vec<String>,
    /// The scheduler of pods that name none, where no policy of a runtime hands them to another; none leaves them to the cluster's.
    pub default_scheduler: Option<String>,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            train_job_status: false,
            namespace: "kubeflow-system".to_owned(),
            status_service: "kubeflow-trainer-controller-manager".to_owned(),
            status_port: 10443,
            status_secret: "kubeflow-trainer-webhook-cert".to_owned(),
            injection: Injection::default(),
            schedulers: vec!["muster-scheduler".to_owned(), "kai-scheduler".to_owned()],
            default_scheduler: None,
        }
    }
}
