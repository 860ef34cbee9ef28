//! The kinds as the API server hands them out. Specs stay JSON until one object is looked at: one that cannot be read
//! must not hide the others.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use kube::{Resource, ResourceExt as _};
use muster_api::names::{COSCHEDULING_API, GROUP, JOB_SET_API, KAI_API, TRAIN_JOB, VOLCANO_API};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The definitions that the controllers know of.
pub mod definition {
    /// Jobs.
    pub const TRAIN_JOB: &str = "trainjobs.trainer.kubeflow.org";
    /// Runtimes of one namespace.
    pub const RUNTIME: &str = "trainingruntimes.trainer.kubeflow.org";
    /// Runtimes of all namespaces.
    pub const CLUSTER_RUNTIME: &str = "clustertrainingruntimes.trainer.kubeflow.org";
    /// JobSets.
    pub const JOB_SET: &str = "jobsets.jobset.x-k8s.io";
    /// The scheduler plugins' PodGroups.
    pub const COSCHEDULING: &str = "podgroups.scheduling.x-k8s.io";
    /// Volcano's.
    pub const VOLCANO: &str = "podgroups.scheduling.volcano.sh";
    /// KAI's.
    pub const KAI: &str = "podgroups.scheduling.run.ai";
}

/// An object of which only the metadata is known.
pub trait Written {
    /// All of it, with its kind.
    fn object(&self) -> Value;
}

macro_rules! written {
    ($(#[$doc:meta])* $name:ident, $scope:ident, $kind:literal, $group:literal, $version:literal, $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            /// Name, labels, annotations.
            #[serde(default)]
            pub metadata: ObjectMeta,
            /// The rest.
            #[serde(flatten)]
            pub rest: Map<String, Value>,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Written for $name {
            fn object(&self) -> Value {
                let mut all = self.rest.clone();
                all.insert("apiVersion".to_owned(), concat!($group, "/", $version).into());
                all.insert("kind".to_owned(), $kind.into());
                let metadata = serde_json::to_value(&self.metadata).unwrap_or_default();
                all.insert("metadata".to_owned(), metadata);
                Value::Object(all)
            }
        }
    };
}

pub(crate) use written;

written!(
    /// A job.
    Job, NamespaceResourceScope, "TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs"
);
written!(
    /// A runtime of one namespace.
    LocalRuntime, NamespaceResourceScope, "TrainingRuntime", "trainer.kubeflow.org", "v1alpha1", "trainingruntimes"
);
written!(
    /// A runtime of all namespaces.
    ClusterRuntime, ClusterResourceScope, "ClusterTrainingRuntime", "trainer.kubeflow.org", "v1alpha1",
    "clustertrainingruntimes"
);
written!(
    /// A JobSet.
    Workload, NamespaceResourceScope, "JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets"
);
written!(
    /// Pods that the scheduler plugins place together.
    CoschedulingGroup, NamespaceResourceScope, "PodGroup", "scheduling.x-k8s.io", "v1alpha1", "podgroups"
);
written!(
    /// Pods that Volcano places together.
    VolcanoGroup, NamespaceResourceScope, "PodGroup", "scheduling.volcano.sh", "v1beta1", "podgroups"
);
written!(
    /// Pods that KAI, or Muster, places together.
    KaiGroup, NamespaceResourceScope, "PodGroup", "scheduling.run.ai", "v2alpha2", "podgroups"
);

/// The kinds of what is made for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Thing {
    /// Snapshots, host files.
    ConfigMap,
    /// Keys.
    Secret,
    /// What runs.
    JobSet,
    /// PodGroups of the scheduler plugins.
    Coscheduling,
    /// Volcano's.
    Volcano,
    /// KAI's.
    Kai,
}

// === impl Thing ===

impl Thing {
    /// A kind that is known, by API version and name.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Some(match (api_version, kind) {
            ("v1", "ConfigMap") => Self::ConfigMap,
            ("v1", "Secret") => Self::Secret,
            (JOB_SET_API, "JobSet") => Self::JobSet,
            (COSCHEDULING_API, "PodGroup") => Self::Coscheduling,
            (VOLCANO_API, "PodGroup") => Self::Volcano,
            (KAI_API, "PodGroup") => Self::Kai,
            _ => return None,
        })
    }
}

/// Where objects of a kind live. A plural that is not said follows the rule.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let plural = format!("{}s", kind.kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&kind, &plural)
}

/// The job that controls an object.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.iter().flatten();
    let ours = |owner: &&OwnerReference| {
        let group = owner.api_version.split('/').next();
        owner.controller == Some(true) && owner.kind == TRAIN_JOB && group == Some(GROUP)
    };
    owners.into_iter().find(ours)
}

/// Of which version an object is.
pub fn version<K: Resource>(object: &K) -> String {
    object.resource_version().unwrap_or_default()
}
