//! The manifests of the tests.

use serde_json::{Value, json};

/// The extended resource of the nodes that `World::nodes` makes.
pub const NPU: &str = "huawei.com/Ascend910";

/// The resource of NVIDIA GPUs.
pub const GPU: &str = "nvidia.com/gpu";

/// A pod template with one container that asks for devices.
pub fn template(image: &str, resource: &str, count: u32, annotations: Value) -> Value {
    json!({
        "metadata": { "annotations": annotations },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main",
                "image": image,
                "resources": { "limits": { resource: count.to_string() } },
            }],
        },
    })
}

/// A pod made of a template.
pub fn pod(name: &str, template: Value) -> Value {
    let mut pod = template;
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod
}

/// One of a JobSet's kinds of jobs: `replicas` jobs of `pods` pods each.
pub fn replicated(name: &str, replicas: u32, pods: u32, template: Value) -> Value {
    json!({
        "name": name,
        "replicas": replicas,
        "template": { "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": template,
        } },
    })
}

/// A JobSet that is started again so often.
pub fn jobset(name: &str, max_restarts: u32, jobs: Vec<Value>) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": name },
        "spec": { "failurePolicy": { "maxRestarts": max_restarts }, "replicatedJobs": jobs },
    })
}
