//! The pods of a rank group, as far as a table needs them.
//!
//! A [`Pod`] reads itself from a Kubernetes object. What places it in its group (role, index, whether it is the
//! entry) comes from the labels that the known workloads put on their pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_proto::annotation::{self, PodRanktable};
use serde::Deserialize;

use crate::names::{ENTRY, INDEX, ROLE, ROLE_ID, ROLE_INDEX};
use muster_kube::rank_group::RANK_GROUP;

/// One pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Object")]
pub struct Pod {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Uid.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Its own address; empty until it has one.
    pub pod_ip: String,
    /// The address of its node.
    pub host_ip: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// What the agent of its node reports that it holds. It counts instead of the annotation.
    pub reported: Option<Arc<PodRanktable>>,
}

/// A list of pods, as `kubectl get pods -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PodList {
    /// The pods.
    #[serde(default)]
    pub items: Vec<Pod>,
}

/// Where a pod stands in its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Post {
    /// The role, `decode`; empty where there are none.
    pub role: String,
    /// The instance of the role, `decode-1`; empty where there are none.
    pub role_id: String,
    /// The number of the instance.
    pub role_index: u64,
    /// Whether it is the pod that the others ask first.
    pub entry: bool,
    /// The number of the pod.
    pub index: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default, rename = "hostIP")]
    host_ip: Option<String>,
}

// === impl Pod ===

impl Pod {
    /// The annotation that says what the pod holds; none if it is missing or empty.
    pub fn annotation(&self) -> Option<&str> {
        self.annotations.get(annotation::KEY).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether it is known what the pod holds.
    pub fn is_known(&self) -> bool {
        self.reported.is_some() || self.annotation().is_some()
    }

    /// The rank group that its label names.
    pub fn rank_group(&self) -> Option<&str> {
        self.labels.get(RANK_GROUP).map(String::as_str)
    }

    /// `namespace/name`, or the name alone where there is no namespace.
    pub fn full_name(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Where it stands in its group.
    pub fn post(&self) -> Post {
        let label = |key: &str| self.labels.get(key).map(String::as_str);
        let role = ROLE.iter().find_map(|key| label(key)).unwrap_or_default();
        let role_index = ROLE_INDEX.iter().find_map(|key| label(key)?.parse().ok());
        let role_index = role_index.or_else(|| last_number(label(ROLE_ID)?)).unwrap_or_default();
        let role_id = match label(ROLE_ID) {
            Some(id) => id.to_owned(),
            None if role.is_empty() => String::new(),
            None => format!("{role}-{role_index}"),
        };
        let mark = |key: &str| label(key).or_else(|| Some(self.annotations.get(key)?.as_str()));
        let index = INDEX.iter().find_map(|key| mark(key)?.parse().ok());
        Post {
            role: role.to_owned(),
            role_id,
            role_index,
            entry: label(ENTRY) == Some("true"),
            index: index.or_else(|| last_number(&self.name)),
        }
    }
}

impl From<Object> for Pod {
    fn from(object: Object) -> Self {
        let Object { metadata, spec, status } = object;
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            node: spec.node_name.unwrap_or_default(),
            pod_ip: status.pod_ip.unwrap_or_default(),
            host_ip: status.host_ip.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            reported: None,
        }
    }
}

/// The number after the last dash: 3 of `serve-0-decode-3`.
fn last_number(name: &str) -> Option<u64> {
    name.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pods_is_read_as_the_api_writes_it() {
        let list: PodList = serde_json::from_value(serde_json::json!({"kind": "List", "items": [
            {"kind": "Pod", "metadata": {"name": "a-1", "namespace": "n", "uid": "u",
                "labels": {RANK_GROUP: "g"}, "annotations": null},
                "spec": {"nodeName": "node-1", "containers": []},
                "status": {"podIP": "172.0.0.1", "hostIP": "10.0.0.1"}},
            {"metadata": {"name": "b"}}]}))
        .unwrap();
        let pod = &list.items[0];
        assert_eq!(pod.full_name(), "n/a-1");
        assert_eq!((pod.node.as_str(), pod.pod_ip.as_str()), ("node-1", "172.0.0.1"));
        assert_eq!(pod.rank_group(), Some("g"));
        assert_eq!(pod.annotation(), None);
        assert_eq!(list.items[1].full_name(), "b");
    }

    #[test]
    fn labels_of_known_workloads_say_where_a_pod_stands() {
        let post = |labels: &[(&str, &str)], name: &str| {
            let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into()));
            Pod { name: name.into(), labels: labels.collect(), ..Pod::default() }.post()
        };
        let serving = post(
            &[(ROLE[0], "decode"), (ROLE_ID, "decode-12"), (ENTRY, "true")],
            "ms-0-decode-12-0",
        );
        assert_eq!((serving.role.as_str(), serving.role_id.as_str()), ("decode", "decode-12"));
        assert_eq!((serving.role_index, serving.entry, serving.index), (12, true, Some(0)));
        let jobset = post(
            &[(ROLE[1], "workers"), (ROLE_INDEX[0], "2"), (INDEX[1], "7")],
            "js-workers-2-7-x9z",
        );
        assert_eq!((jobset.role_id.as_str(), jobset.index), ("workers-2", Some(7)));
        let bare = post(&[], "pod-x");
        assert_eq!(bare, Post::default());
    }
}
