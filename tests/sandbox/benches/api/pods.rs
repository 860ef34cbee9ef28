//! The pods of the benchmark: about 2 KB each, as a training job makes them.

use serde_json::{Value, json};

/// Nodes that the pods are spread over.
pub const NODES: usize = 200;
/// Pods that are there from the start.
pub const PODS: usize = 10_000;
/// Where the pods live.
pub const NAMESPACE: &str = "training";

/// The node of the n-th pod.
pub fn node_of(n: usize) -> usize {
    n % NODES
}

/// The name of the n-th pod.
pub fn name_of(n: usize) -> String {
    format!("llama-worker-{n:05}")
}

/// The path of a pod.
pub fn path_of(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
}

/// A pod as a controller sends it.
pub fn pod(name: &str, node: usize) -> Value {
    let env = |rank: usize| {
        json!([
            {"name": "MASTER_ADDR", "value": "llama-worker-00000.llama.training.svc"},
            {"name": "MASTER_PORT", "value": "29500"},
            {"name": "WORLD_SIZE", "value": "10000"},
            {"name": "RANK", "value": rank.to_string()},
            {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ])
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": "llama",
                "app.kubernetes.io/component": "worker",
                "batch.kubernetes.io/job-name": "llama-worker",
                "jobset.sigs.k8s.io/jobset-name": "llama",
                "muster.dev/turn": "0",
            },
            "annotations": {
                "batch.kubernetes.io/job-completion-index": "7",
                "jobset.sigs.k8s.io/replicatedjob-name": "worker",
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [{
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "llama-worker",
                "uid": "4b7e1c9e-7a39-4b8c-9a44-0f3f0a4a2f10",
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{node}"),
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "trainer",
                    "image": "registry.example/training/llama:1.4.2",
                    "command": ["torchrun", "--nnodes=1250", "--nproc-per-node=8", "train.py"],
                    "env": env(node),
                    "ports": [{"name": "rendezvous", "containerPort": 29500}],
                    "resources": {
                        "requests": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "8"},
                        "limits": {"memory": "256Gi", "nvidia.com/gpu": "8"},
                    },
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/data", "readOnly": true},
                        {"name": "shm", "mountPath": "/dev/shm"},
                    ],
                },
                {
                    "name": "exporter",
                    "image": "registry.example/observe/exporter:0.9.0",
                    "args": ["--listen=:9400"],
                    "env": [{"name": "LOG_LEVEL", "value": "info"}],
                    "ports": [{"name": "metrics", "containerPort": 9400}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                },
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "corpus", "readOnly": true}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    })
}

/// What a kubelet writes to the status: a merge patch.
pub fn status_patch(turn: u64) -> Value {
    let ready = if turn.is_multiple_of(2) { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "image": image, "imageID": "sha256:5f1d0a",
            "ready": turn.is_multiple_of(2), "restartCount": turn, "started": true,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        })
    };
    json!({"status": {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "hostIP": "192.168.0.9",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            condition("Initialized", "True"),
            condition("PodScheduled", "True"),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": [
            container("exporter", "registry.example/observe/exporter:0.9.0"),
            container("trainer", "registry.example/training/llama:1.4.2"),
        ],
    }})
}
