//! Why a pod cannot be given what it asks for.

use serde_json::Value as Json;

use crate::names::{VOLUME, WAITER};
use crate::template::TemplateError;
use muster_kube::rank_group::{RANKTABLE_CONTAINERS, RANKTABLE_DELIVERY};

/// A pod that is refused. The message names the pod, what is wrong with it, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pod {pod}: {problem}")]
pub struct InjectError {
    /// `namespace/name`; the beginning of its name where the API server is to choose the end.
    pub pod: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is no pod.
    #[error("{field} is not {should}: correct it")]
    Malformed {
        /// The field.
        field: String,
        /// What it should be.
        should: &'static str,
    },
    /// A label or annotation holds something that it cannot hold.
    #[error("{what} {key}: {value:?} is not allowed; use {allowed}")]
    Mark {
        /// `label` or `annotation`.
        what: &'static str,
        /// Its key.
        key: &'static str,
        /// What it holds.
        value: String,
        /// What it can hold.
        allowed: &'static str,
    },
    /// Its template cannot be used.
    #[error(transparent)]
    Template(TemplateProblem),
    /// It has a volume of the table's name that is something else.
    #[error(
        "volume {VOLUME} is {is}, and delivery {delivery} needs {wanted}: make it that, rename it, or choose the other delivery with the annotation {RANKTABLE_DELIVERY}"
    )]
    Volume {
        /// What the volume is.
        is: String,
        /// How tables are delivered.
        delivery: &'static str,
        /// What the volume should be.
        wanted: String,
    },
    /// Another volume is mounted where the table goes.
    #[error(
        "container {container:?} mounts volume {volume:?} at {path}, where the table goes: mount it elsewhere, or leave the container out with the annotation {RANKTABLE_CONTAINERS}"
    )]
    MountTaken {
        /// The container.
        container: String,
        /// Where.
        path: String,
        /// The other volume.
        volume: String,
    },
    /// A container has the name of the one that waits.
    #[error(
        "container {WAITER} has the name of the init container that waits for the table: rename it"
    )]
    NameTaken,
    /// A container that should see the table is not there.
    #[error(
        "annotation {RANKTABLE_CONTAINERS}: there is no container {name:?} that could use a table; use some of: {there}"
    )]
    NoContainer {
        /// The container.
        name: String,
        /// Those that are there.
        there: String,
    },
    /// It is too large.
    #[error("{count} containers are too many: use at most {most}", most = super::frame::MOST_CONTAINERS)]
    TooMany {
        /// How many it has.
        count: usize,
    },
}

/// Why there is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// There is no such ConfigMap.
    #[error(
        "there is no template {namespace}/{name}: create the ConfigMap, or name another in the pod's annotation"
    )]
    Missing {
        /// Where templates are.
        namespace: String,
        /// The name that the pod says.
        name: String,
    },
    /// The ConfigMap cannot be used.
    #[error(transparent)]
    Invalid(#[from] TemplateError),
    /// Nobody knows yet.
    #[error("templates are not read yet: try again")]
    Unread,
}

// === impl InjectError ===

impl InjectError {
    /// The kind, for events and metrics.
    pub fn reason(&self) -> &'static str {
        self.problem.reason()
    }
}

// === impl Problem ===

impl Problem {
    /// The kind, for events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "pod-malformed",
            Self::Mark { .. } => "mark-invalid",
            Self::Template(problem) => problem.reason(),
            Self::Volume { .. } => "volume-taken",
            Self::MountTaken { .. } => "mount-taken",
            Self::NameTaken => "container-name-taken",
            Self::NoContainer { .. } => "container-missing",
            Self::TooMany { .. } => "too-many-containers",
        }
    }

    pub(super) fn annotation(key: &'static str, value: &str, allowed: &'static str) -> Self {
        Self::Mark { what: "annotation", key, value: shortened(value), allowed }
    }
}

// === impl TemplateProblem ===

impl TemplateProblem {
    /// The kind, for events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "template-missing",
            Self::Invalid(error) => error.reason(),
            Self::Unread => "templates-unread",
        }
    }
}

/// What a pod is called. A new one may have no name yet, and its namespace is the request's.
pub(super) fn full_name(pod: &Json, namespace: &str) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().filter(|text| !text.is_empty());
    let name = match (text("name"), text("generateName")) {
        (Some(name), _) => shortened(name),
        (None, Some(begin)) => format!("{}…", shortened(begin)),
        (None, None) => "without a name".to_owned(),
    };
    match namespace {
        "" => name,
        namespace => format!("{namespace}/{name}"),
    }
}

/// What others wrote may be long; the beginning says enough.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
