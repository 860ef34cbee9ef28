//! The kinds as the API server hands them out. Specs stay JSON until one object is looked at: one that cannot be read
//! must not hide the others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use kube::{Resource, ResourceExt as _};
use muster_api::names::{GROUP, TRAIN_JOB};

/// The definitions that the controllers know of.
pub mod definition {
    /// Jobs.
    pub const TRAIN_JOB: &str = "trainjobs.trainer.kubeflow.org";
    /// Runtimes of one namespace.
    pub const RUNTIME: &str = "trainingruntimes.trainer.kubeflow.org";
    /// Runtimes of all namespaces.
    pub const CLUSTER_RUNTIME: &str = "clustertrainingruntimes.trainer.kubeflow.org";
}

muster_api::raw_kind!(
    /// A job.
    Job, NamespaceResourceScope, "TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs"
);
muster_api::raw_kind!(
    /// A runtime of one namespace.
    LocalRuntime, NamespaceResourceScope, "TrainingRuntime", "trainer.kubeflow.org", "v1alpha1", "trainingruntimes"
);
muster_api::raw_kind!(
    /// A runtime of all namespaces.
    ClusterRuntime, ClusterResourceScope, "ClusterTrainingRuntime", "trainer.kubeflow.org", "v1alpha1",
    "clustertrainingruntimes"
);
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
