//! Which resource a controller speaks of: group, version, plural and scope.

use std::borrow::Cow;

/// One resource of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for core.
    pub group: Cow<'static, str>,
    /// Version within the group.
    pub version: Cow<'static, str>,
    /// Plural name, as in the URL.
    pub plural: Cow<'static, str>,
    /// CamelCase kind, as in `kind`.
    pub kind: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        group: Cow::Borrowed(group),
        version: Cow::Borrowed(version),
        plural: Cow::Borrowed(plural),
        kind: Cow::Borrowed(kind),
        namespaced,
    }
}

pub(crate) static PODS: Kind = kind("", "v1", "pods", "Pod", true);
pub(crate) static NODES: Kind = kind("", "v1", "nodes", "Node", false);
pub(crate) static NAMESPACES: Kind = kind("", "v1", "namespaces", "Namespace", false);
pub(crate) static SERVICES: Kind = kind("", "v1", "services", "Service", true);
pub(crate) static ENDPOINTS: Kind = kind("", "v1", "endpoints", "Endpoints", true);
pub(crate) static CONFIG_MAPS: Kind = kind("", "v1", "configmaps", "ConfigMap", true);
pub(crate) static SERVICE_ACCOUNTS: Kind =
    kind("", "v1", "serviceaccounts", "ServiceAccount", true);
pub(crate) static EVENTS: Kind = kind("", "v1", "events", "Event", true);
pub(crate) static JOBS: Kind = kind("batch", "v1", "jobs", "Job", true);
pub(crate) static JOB_SETS: Kind = kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true);
pub(crate) static ENDPOINT_SLICES: Kind =
    kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true);
pub(crate) static BUDGETS: Kind =
    kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
pub(crate) static DEFINITIONS: Kind = kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
);

// === impl Kind ===

impl Kind {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The URL path of the collection (`name` empty) or of one object; `namespace` empty means all.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_namespace_only_where_the_kind_has_one() {
        assert_eq!(PODS.path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(JOBS.path("", ""), "/apis/batch/v1/jobs");
        assert_eq!(NODES.path("a", "b"), "/api/v1/nodes/b");
    }
}
