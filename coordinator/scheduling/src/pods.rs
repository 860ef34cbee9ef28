//! What is kept of a pod. Clusters have many, so that a byte more is a megabyte.

use muster_scheduler::input::{
    COSCHEDULING_GROUP, COSCHEDULING_GROUP_OLD, Container, KAI_GROUP, Pod, PodSpec, VOLCANO_GROUP,
    VOLCANO_TASK, Volume,
};
use muster_scheduler_state::names::FAULT_POLICY;
use muster_scheduler_state::{Kind, Object};

use super::kinds::kept;
use super::watched::TrimmedKind;

/// Annotations of pods that decisions read, besides those that begin like one of [`PREFIXES`].
const READ: [&str; 7] = [
    KAI_GROUP,
    FAULT_POLICY,
    VOLCANO_GROUP,
    VOLCANO_TASK,
    "received-resource-type",
    "mps",
    "run.ai/reserve_for_gpu_index",
];
const PREFIXES: [&str; 4] = ["gpu-", "kai.scheduler/", "nvidia.com/mig-", "runai"];

impl TrimmedKind for Pod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const OF: Kind = Kind::Pod;

    fn object(mut self) -> Object {
        let read = |name: &str| {
            READ.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        self.metadata.annotations = kept(&self.metadata.annotations, read);
        self.metadata.owner_references = Vec::new();
        trim(&mut self.spec);
        Object::Pod(Box::new(self))
    }

    fn may_be_kept(text: &str) -> bool {
        !text.contains("\"nodeName\"") && !text.contains(KAI_GROUP)
    }

    /// A pod that waits and has no group yet: who owns it says which it gets.
    fn is_kept(&self) -> bool {
        let labels = &self.metadata.labels;
        let foreign = [COSCHEDULING_GROUP, COSCHEDULING_GROUP_OLD];
        self.spec.node_name.is_empty()
            && self.metadata.deletion_timestamp.is_none()
            && self.metadata.annotations.get(KAI_GROUP).is_none()
            && self.metadata.annotations.get(VOLCANO_GROUP).is_none()
            && foreign.iter().all(|label| labels.get(label).is_none())
    }
}

/// Takes away what names nothing that a decision looks for: most variables, volumes and ports.
fn trim(spec: &mut PodSpec) {
    // What a pod needs to begin is not asked of one that has its node.
    let begins = spec.node_name.is_empty();
    let names = |volume: &Volume| {
        let claim = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
        claim || (begins && volume.config_maps().next().is_some())
    };
    spec.volumes.retain(names);
    spec.volumes.shrink_to_fit();
    let PodSpec { containers, init_containers, ephemeral_containers, volumes, .. } = spec;
    for container in containers.iter_mut().chain(init_containers).chain(ephemeral_containers) {
        trim_container(container, volumes, begins);
    }
    spec.tolerations.shrink_to_fit();
    spec.containers.shrink_to_fit();
}

fn trim_container(container: &mut Container, volumes: &[Volume], begins: bool) {
    container.ports.retain(|port| port.host_port > 0);
    container.ports.shrink_to_fit();
    container.env.retain(|env| {
        let from = env.value_from.as_ref();
        begins && from.is_some_and(|from| from.config_map_key_ref.is_some())
    });
    container.env.shrink_to_fit();
    container.env_from.retain(|from| begins && from.config_map_ref.is_some());
    container.env_from.shrink_to_fit();
    container.volume_mounts.retain(|mount| volumes.iter().any(|volume| volume.name == mount.name));
    container.volume_mounts.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(node: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "annotations": {"note": "long", "gpu-fraction": "0.5"},
                "ownerReferences": [{"kind": "Job", "name": "j"}]},
            "spec": {"nodeName": node,
                "volumes": [{"name": "shm", "emptyDir": {}}, {"name": "map", "configMap": {"name": "m"}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
                "containers": [{"name": "main",
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
                    "env": [{"name": "A", "value": "a"},
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
                    "envFrom": [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "n"}}],
                    "volumeMounts": [{"name": "shm", "mountPath": "/a"}, {"name": "map", "mountPath": "/b"},
                        {"name": "data", "mountPath": "/c"}]}]}});
        let Object::Pod(pod) = serde_json::from_value::<Pod>(pod).unwrap().object() else {
            panic!("a pod")
        };
        *pod
    }

    #[test]
    fn a_pod_that_waits_keeps_what_it_needs_to_begin_and_no_more() {
        let pod = kept("");
        let annotations: Vec<_> = pod.metadata.annotations.iter().collect();
        assert_eq!(annotations, [("gpu-fraction", "0.5")]);
        assert!(pod.metadata.owner_references.is_empty());
        let volumes: Vec<_> = pod.spec.volumes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(volumes, ["map", "data"]);
        let main = &pod.spec.containers[0];
        let mounts: Vec<_> = main.volume_mounts.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(mounts, ["map", "data"]);
        assert_eq!((main.ports.len(), main.env.len(), main.env_from.len()), (1, 1, 1));
    }

    #[test]
    fn a_pod_that_has_its_node_keeps_ports_and_claims() {
        let pod = kept("node");
        let volumes: Vec<_> = pod.spec.volumes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(volumes, ["data"]);
        let main = &pod.spec.containers[0];
        assert_eq!((main.ports.len(), main.env.len(), main.env_from.len()), (1, 0, 0));
    }
}
