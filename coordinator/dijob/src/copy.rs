//! A pod in the place of one that has failed: the same, under another name.

use serde_json::Value;

use crate::names::{env, label};
use crate::pod::Pod;

/// Volumes that the API server has added by itself.
const INJECTED: &str = "kube-api-access-";

/// Tolerations that the API server has added by itself.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Its name: the old one with another suffix.
pub fn name(old: &str, suffix: &str) -> String {
    let stem = old.rsplit_once('-').map_or(old, |(stem, _)| stem);
    format!("{stem}-{suffix}")
}

/// A pod like this one.
pub fn of(old: &Pod, name: &str) -> Pod {
    let mut pod = Pod { spec: old.spec.clone(), ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace.clone_from(&old.metadata.namespace);
    pod.metadata.owner_references.clone_from(&old.metadata.owner_references);
    pod.metadata.annotations.clone_from(&old.metadata.annotations);
    pod.metadata.labels.clone_from(&old.metadata.labels);
    pod.labels_mut().insert(label::POD.to_owned(), name.to_owned());
    pod.spec.remove("nodeName");
    // The API takes them only for a pod that is there.
    pod.spec.remove("ephemeralContainers");
    forget(pod.spec.get_mut("volumes"), |volume| is_injected(&volume["name"]));
    forget(pod.spec.get_mut("tolerations"), |one| {
        let seconds = one["tolerationSeconds"].as_i64() == Some(300);
        seconds && one["key"].as_str().is_some_and(|key| TOLERATED.contains(&key))
    });
    for kind in ["containers", "initContainers"] {
        let all = pod.spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in all.into_iter().flatten() {
            forget(container.get_mut("volumeMounts"), |mount| is_injected(&mount["name"]));
        }
    }
    if old.containers().any(|one| has(one, env::POD)) {
        pod.set_variable(env::POD, name);
    }
    pod
}

fn has(container: &Value, variable: &str) -> bool {
    container["env"].as_array().into_iter().flatten().any(|one| one["name"] == variable)
}

fn is_injected(name: &Value) -> bool {
    name.as_str().is_some_and(|name| name.starts_with(INJECTED))
}

fn forget(list: Option<&mut Value>, which: impl Fn(&Value) -> bool) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.retain(|one| !which(one));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_cluster_has_added_is_left_behind() {
        let spec = json!({"nodeName": "n1", "ephemeralContainers": [{"name": "debugger"}], "volumes": [{"name": "data"}, {"name": "kube-api-access-x"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "tolerationSeconds": 300}, {"key": "mine"}],
            "containers": [{"name": "di-container", "env": [{"name": "KUBERNETES_POD_NAME", "value": "a-learner-bbbbb"}],
                "volumeMounts": [{"name": "data"}, {"name": "kube-api-access-x"}]}]});
        let old: Pod = serde_json::from_value(
            json!({"metadata": {"name": "a-learner-bbbbb", "namespace": "rl",
            "uid": "1", "resourceVersion": "7", "annotations": {"k": "v"}}, "spec": spec,
            "status": {"phase": "Failed"}}),
        )
        .unwrap();
        let new = of(&old, &name(old.name(), "ccccc"));
        assert_eq!(
            new.to_value(),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a-learner-ccccc", "namespace": "rl", "annotations": {"k": "v"},
                    "labels": {"pod-name": "a-learner-ccccc"}},
                "spec": {"volumes": [{"name": "data"}], "tolerations": [{"key": "mine"}],
                    "containers": [{"name": "di-container",
                        "env": [{"name": "KUBERNETES_POD_NAME", "value": "a-learner-ccccc"}],
                        "volumeMounts": [{"name": "data"}]}]}})
        );
    }
}
