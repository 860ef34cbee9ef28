//! The service of a pod: a name and ports by which others find it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::names::{self, label};
use crate::pod::Pod;
use crate::role::Role;

/// What a pod is found by, of all its labels.
const SELECTOR: [&str; 5] = [label::GROUP, label::JOB, label::CONTROLLER, label::ROLE, label::POD];

/// The service of this pod.
pub fn of(pod: &Pod) -> Value {
    let selector: serde_json::Map<String, Value> = SELECTOR
        .iter()
        .map(|key| ((*key).to_owned(), pod.label(key)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key, value.into()))
        .collect();
    let metadata = ObjectMeta {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        labels: pod.metadata.labels.clone(),
        owner_references: pod.metadata.owner_references.clone(),
        ..ObjectMeta::default()
    };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            // Those who wait for each other must find each other before they are ready.
            "publishNotReadyAddresses": true,
            "selector": selector,
            "ports": ports(pod),
        },
    })
}

fn ports(pod: &Pod) -> Vec<Value> {
    let port = pod.port();
    let mut ports = vec![json!({"name": names::PORT, "port": port})];
    if pod.role() == Some(Role::DdpLearner) {
        // What its container publishes tells it too, whatever the devices are called.
        let published = u64::try_from(pod.gpu_ports().len()).unwrap_or_default();
        let processes = pod.devices().max(published.saturating_add(1));
        let last = u32::try_from(processes).unwrap_or(u32::MAX).min(65_535 - port.min(65_534));
        for process in 1..last {
            let name = format!("{}-{process}", names::GPU_PORT);
            ports.push(json!({"name": name, "port": port.saturating_add(process)}));
        }
        if pod.label(label::DDP) == label::DDP_MASTER {
            ports.push(json!({"name": names::MASTER_PORT, "port": names::MASTER_PORT_NUMBER}));
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ddp(kind: &str, gpus: u64) -> Pod {
        let container = json!({"name": "di-container", "resources": {"requests": {"huawei.com/Ascend910": gpus}}});
        let mut pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap();
        pod.labels_mut().insert(label::ROLE.to_owned(), "ddp-learner".to_owned());
        pod.labels_mut().insert(label::DDP.to_owned(), kind.to_owned());
        pod.labels_mut().insert("team".to_owned(), "a".to_owned());
        pod
    }

    #[test]
    fn a_learner_has_a_port_for_each_of_its_processes() {
        let count = |kind, gpus| ports(&ddp(kind, gpus)).len();
        assert_eq!(count(label::DDP_MASTER, 4), 5);
        assert_eq!(count(label::DDP_WORKER, 6), 6);
        assert_eq!([count(label::DDP_MASTER, 1), count(label::DDP_MASTER, 0)], [2, 2]);
        assert_eq!(count(label::DDP_WORKER, 0), 1);
        assert!(count(label::DDP_WORKER, u64::MAX) < 65_536, "there are no more ports");
    }

    #[test]
    fn devices_of_any_name_have_their_ports() {
        let container = json!({"name": "di-container", "resources": {"limits": {"example.com/npu": 3}},
            "ports": [{"name": "di-port", "containerPort": 22271},
                {"name": "gpu-port-1", "containerPort": 22272}, {"name": "gpu-port-2", "containerPort": 22273}]});
        let mut pod = ddp(label::DDP_WORKER, 0);
        pod.spec.insert("containers".to_owned(), json!([container]));
        let numbers: Vec<_> = ports(&pod).iter().map(|port| port["port"].clone()).collect();
        assert_eq!(numbers, [22271, 22272, 22273]);
    }

    #[test]
    fn a_pod_is_not_found_by_labels_that_people_may_change() {
        let service = of(&ddp(label::DDP_WORKER, 1));
        assert_eq!(service["metadata"]["labels"]["team"], "a");
        assert_eq!(service["spec"]["selector"], json!({"replica-type": "ddp-learner"}));
    }
}
