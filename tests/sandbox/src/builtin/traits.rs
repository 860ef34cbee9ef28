//! Facts about the built-in kinds that need no object: names, selectors, deletion, scale.

use serde_json::Value;

use super::NameRule;
use super::pod;
use super::types::TABLE;

/// What happens to dependents where the caller does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go after their owner.
    Background,
    /// They stay and lose their owner.
    Orphan,
}

/// Where a scalable kind keeps its numbers, as dotted paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the wanted number of replicas.
    pub spec_replicas: &'static str,
    /// Replicas that there are.
    pub status_replicas: &'static str,
    /// The label selector, an object.
    pub selector: &'static str,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Seconds until a deleted object is gone, where the caller names none and the kind takes its time.
pub fn default_grace_seconds(group: &str, kind: &str, object: &Value) -> Option<i64> {
    ((group, kind) == ("", "Pod")).then(|| pod::grace_seconds(object))
}

/// What happens to dependents where the caller does not say.
pub fn default_propagation(group: &str, kind: &str) -> Propagation {
    match (group, kind) {
        ("batch", "Job") | ("", "ReplicationController") => Propagation::Orphan,
        _ => Propagation::Background,
    }
}

/// Whether a put without a resource version overwrites.
pub fn unconditional_update(group: &str, kind: &str) -> bool {
    match (group, kind) {
        ("coordination.k8s.io", "Lease") | ("policy", "PodDisruptionBudget") => false,
        ("node.k8s.io", "RuntimeClass") => false,
        ("storage.k8s.io", "CSINode" | "CSIDriver" | "VolumeAttachment") => false,
        ("admissionregistration.k8s.io", _) => false,
        _ => TABLE.kind(group, kind).is_some(),
    }
}

/// Whether a put of an absent object creates it.
pub fn create_on_update(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("", "Event" | "Endpoints" | "LimitRange" | "Service")
            | ("events.k8s.io", "Event")
            | ("coordination.k8s.io", "Lease")
            | ("node.k8s.io", "RuntimeClass")
            | (RBAC, _)
    )
}

/// The fields that a field selector may name.
pub fn selectable_fields(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "Namespace") => &["metadata.name", "status.phase"],
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            &["metadata.name", "metadata.namespace", "status.replicas"]
        }
        ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "metadata.name",
            "metadata.namespace",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
            "metadata.name",
            "metadata.namespace",
        ],
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            &["metadata.name", "spec.signerName"]
        }
        _ if namespaced(group, kind) == Some(false) => &["metadata.name"],
        _ => &["metadata.name", "metadata.namespace"],
    }
}

/// Where a scalable kind keeps its numbers.
pub fn scale_paths(group: &str, kind: &str) -> Option<ScalePaths> {
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            Some(ScalePaths {
                spec_replicas: "spec.replicas",
                status_replicas: "status.replicas",
                selector: "spec.selector",
            })
        }
        _ => None,
    }
}

/// What the names of a kind look like.
pub fn name_rule(group: &str, kind: &str) -> NameRule {
    match (group, kind) {
        ("", "Namespace") | ("apps", "StatefulSet") => NameRule::Label,
        ("", "Service") => NameRule::Label1035,
        (RBAC, _) | ("policy", "PodDisruptionBudget") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Whether objects of a built-in kind live in a namespace; none where the kind is not built in.
pub fn namespaced(group: &str, kind: &str) -> Option<bool> {
    TABLE.kind(group, kind)?;
    Some(!matches!(
        (group, kind),
        ("", "Namespace" | "Node" | "PersistentVolume")
            | (RBAC, "ClusterRole" | "ClusterRoleBinding")
            | ("admissionregistration.k8s.io", _)
            | ("scheduling.k8s.io", _)
            | ("storage.k8s.io", _)
            | ("node.k8s.io", _)
            | ("certificates.k8s.io", _)
            | ("networking.k8s.io", "IngressClass")
    ))
}
