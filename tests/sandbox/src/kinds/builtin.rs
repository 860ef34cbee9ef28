//! The built-in resources, one row each.

use muster_objects::shape::Shape;

use super::{Kind, Scale};
use crate::builtin;

const CLUSTER: u8 = 1;
const STATUS: u8 = 2;
const REVIEW: u8 = 4;
const ALL: u8 = 8;

type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, u8);

/// Group, version, kind, plural, short names, flags.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("", "v1", "ConfigMap", "configmaps", "cm", 0),
    ("", "v1", "Endpoints", "endpoints", "ep", 0),
    ("", "v1", "Event", "events", "ev", 0),
    ("", "v1", "LimitRange", "limitranges", "limits", 0),
    ("", "v1", "Namespace", "namespaces", "ns", CLUSTER | STATUS),
    ("", "v1", "Node", "nodes", "no", CLUSTER | STATUS),
    ("", "v1", "PersistentVolume", "persistentvolumes", "pv", CLUSTER | STATUS),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", STATUS),
    ("", "v1", "Pod", "pods", "po", STATUS | ALL),
    ("", "v1", "PodTemplate", "podtemplates", "", 0),
    ("", "v1", "ReplicationController", "replicationcontrollers", "rc", STATUS | ALL),
    ("", "v1", "ResourceQuota", "resourcequotas", "quota", STATUS),
    ("", "v1", "Secret", "secrets", "", 0),
    ("", "v1", "Service", "services", "svc", STATUS | ALL),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", 0),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "", CLUSTER),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "", CLUSTER | STATUS),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "", CLUSTER),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "", CLUSTER),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "crd,crds", CLUSTER | STATUS),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", "", 0),
    ("apps", "v1", "DaemonSet", "daemonsets", "ds", STATUS | ALL),
    ("apps", "v1", "Deployment", "deployments", "deploy", STATUS | ALL),
    ("apps", "v1", "ReplicaSet", "replicasets", "rs", STATUS | ALL),
    ("apps", "v1", "StatefulSet", "statefulsets", "sts", STATUS | ALL),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", "", CLUSTER | REVIEW),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", "", CLUSTER | REVIEW),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", "", REVIEW),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "", CLUSTER | REVIEW),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", "", CLUSTER | REVIEW),
    ("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", "", CLUSTER | REVIEW),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", STATUS | ALL),
    ("batch", "v1", "CronJob", "cronjobs", "cj", STATUS | ALL),
    ("batch", "v1", "Job", "jobs", "", STATUS | ALL),
    ("coordination.k8s.io", "v1", "Lease", "leases", "", 0),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "", 0),
    ("events.k8s.io", "v1", "Event", "events", "ev", 0),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", STATUS),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", "", CLUSTER),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol", 0),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "", CLUSTER),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", STATUS),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "", CLUSTER),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "", CLUSTER),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", "", 0),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "", 0),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", CLUSTER),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", "", CLUSTER),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", CLUSTER),
];

/// All built-in kinds.
pub(super) fn all() -> Vec<Kind> {
    ROWS.iter().map(from_row).collect()
}

fn from_row(&(group, version, kind, plural, short, flags): &Row) -> Kind {
    // Both views of events are one table.
    let resource = match (group, plural) {
        ("" | "events.k8s.io", plural) => plural.to_owned(),
        (group, plural) => format!("{plural}.{group}"),
    };
    let scale = builtin::scale_paths(group, kind).map(|paths| Scale {
        spec_replicas: paths.spec_replicas.to_owned(),
        status_replicas: paths.status_replicas.to_owned(),
        selector: Some(paths.selector.to_owned()),
    });
    let text = |list: &str| list.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect();
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: text(short),
        categories: if flags & ALL != 0 { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: flags & CLUSTER == 0,
        resource,
        status: flags & STATUS != 0,
        scale,
        review: flags & REVIEW != 0,
        shape: Shape::builtin(group, kind),
        custom: None,
    }
}
