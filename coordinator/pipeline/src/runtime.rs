//! A runtime, read once and shared: its policies, and its template as JSON.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::names::{CLUSTER_TRAINING_RUNTIME, GROUP, TRAINING_RUNTIME};
use muster_api::runtime::TrainingRuntimeSpec;
use muster_api::train_job::RuntimeRef;
use serde_json::{Map, Value};

use crate::{resources, tidy};

/// How many texts are remembered.
const REMEMBERED: usize = 512;

/// The two kinds of runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuntimeKind {
    /// A `ClusterTrainingRuntime`, for all namespaces.
    Cluster,
    /// A `TrainingRuntime` of one namespace.
    Namespaced,
}

/// A training runtime of either kind.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Which kind of runtime it is.
    pub kind: RuntimeKind,
    /// Name, labels, annotations.
    pub metadata: ObjectMeta,
    /// Its policies. The JobSet's spec is not in here, but in `jobs` and `rest`.
    pub spec: TrainingRuntimeSpec,
    /// The replicated jobs of its template.
    pub jobs: Vec<Value>,
    /// The rest of the JobSet's spec.
    pub rest: Map<String, Value>,
    /// All of it, as it was read.
    pub object: Value,
}

/// Why something is no runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// It is something else.
    #[error("this is no runtime, but a {0:?}")]
    Kind(String),
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Runtimes by the text that keeps them: jobs of one runtime have the same text, which is read once.
#[derive(Debug, Default)]
pub struct Runtimes {
    known: Mutex<BTreeMap<String, Arc<Runtime>>>,
}

// === impl RuntimeKind ===

impl RuntimeKind {
    /// Both kinds of runtimes.
    pub const ALL: [Self; 2] = [Self::Cluster, Self::Namespaced];

    /// The kind that a TrainJob names, by group and kind; none if there is no such.
    pub fn of(reference: &RuntimeRef) -> Option<Self> {
        if reference.api_group.as_deref() != Some(GROUP) {
            return None;
        }
        Self::named(reference.kind.as_deref().unwrap_or_default())
    }

    /// A kind by its name.
    pub fn named(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.kind() == kind)
    }

    /// The kind as manifests write it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Cluster => CLUSTER_TRAINING_RUNTIME,
            Self::Namespaced => TRAINING_RUNTIME,
        }
    }

    /// Its name in addresses.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Cluster => "clustertrainingruntimes",
            Self::Namespaced => "trainingruntimes",
        }
    }
}

// === impl Runtime ===

impl Runtime {
    /// Reads a runtime as the API server hands it out.
    pub fn read(mut object: Value) -> Result<Self, RuntimeError> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let kind = RuntimeKind::named(kind).ok_or_else(|| RuntimeError::Kind(kind.to_owned()))?;
        if let Some(spec) = object.get_mut("spec") {
            resources::normalize(spec);
        }
        if let Some(template) = object.pointer_mut("/spec/template") {
            tidy::tidy(template);
        }
        let unreadable = |error: serde_json::Error| RuntimeError::Unreadable(error.to_string());
        let part =
            |key: &str| object.get(key).cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let metadata: ObjectMeta = serde_json::from_value(part("metadata")).map_err(unreadable)?;
        let mut spec: TrainingRuntimeSpec =
            serde_json::from_value(part("spec")).map_err(unreadable)?;
        let mut rest = match spec.template.spec.take() {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(rest)) => rest,
            Some(_) => {
                return Err(RuntimeError::Unreadable("spec.template.spec is no object".to_owned()));
            }
        };
        let jobs = match rest.remove("replicatedJobs") {
            Some(Value::Array(jobs)) => jobs,
            _ => Vec::new(),
        };
        if let Some(odd) = jobs.iter().find(|job| !is_job(job)) {
            return Err(RuntimeError::Unreadable(format!(
                "spec.template.spec.replicatedJobs: {odd} is no job with a name"
            )));
        }
        Ok(Self { kind, metadata, spec, jobs, rest, object })
    }

    /// Name of the runtime.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

fn is_job(job: &Value) -> bool {
    job.get("name").is_some_and(Value::is_string)
}

// === impl Runtimes ===

impl Runtimes {
    /// A runtime from the text of a snapshot.
    pub fn read(&self, text: &str) -> Result<Arc<Runtime>, RuntimeError> {
        if let Ok(known) = self.known.lock()
            && let Some(runtime) = known.get(text)
        {
            return Ok(runtime.clone());
        }
        let object: Value = serde_saphyr::from_str(text)
            .map_err(|error| RuntimeError::Unreadable(error.to_string()))?;
        let runtime = Arc::new(Runtime::read(object)?);
        if let Ok(mut known) = self.known.lock() {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(text.to_owned(), runtime.clone());
        }
        Ok(runtime)
    }
}
