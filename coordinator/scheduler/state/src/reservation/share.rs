//! What a pod that shares devices receives: the variables that its webhook has left open, and labels.

use std::collections::BTreeMap;

use muster_scheduler::input::{Node, Pod};
use muster_scheduler::snapshot::ceil2;

use super::GROUP;
use super::shared_device::groups_of;

/// The annotation with which the names of a pod's ConfigMaps begin; the webhook writes it.
pub const CONFIG_MAP: &str = "runai/shared-gpu-configmap";
/// The annotation that says how a pod got its devices.
const RECEIVED: &str = "received-resource-type";
/// Mebibytes of a device where no label says it, as the engine has it.
const UNKNOWN: i64 = 100;
/// The most devices that a pod may share, as the engine has it.
const MOST_DEVICES: i64 = 1 << 16;

/// How a pod asks for a part of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asks {
    /// So much of each: 1 is all.
    Fraction(f64),
    /// So many mebibytes of each.
    Memory(i64),
}

/// What a pod that shares devices gets before it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its devices, in the order of its groups.
    pub devices: Vec<String>,
    /// ConfigMaps of its namespace, by name: they are the pod's.
    pub maps: BTreeMap<String, BTreeMap<String, String>>,
    /// Labels; none takes one away.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Why a pod cannot be told its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// Nobody has prepared it.
    NoMap,
    /// The container that it names is not there.
    NoContainer,
}

/// How a pod asks for a part of devices; none if it does not. As the engine reads it.
pub fn asks(pod: &Pod) -> Option<Asks> {
    let annotation = |name: &str| pod.metadata.annotations.get(name);
    let fraction = annotation("gpu-fraction")
        .and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|fraction| *fraction > 0.0 && *fraction <= 1.0);
    let memory = annotation("gpu-memory")
        .and_then(|text| text.parse::<i64>().ok())
        .filter(|memory| *memory > 0);
    fraction.map(Asks::Fraction).or(memory.map(Asks::Memory))
}

/// The ConfigMap that a container of the pod takes its variables from.
///
/// # Errors
/// Why there is none.
pub fn map_of(pod: &Pod) -> Result<String, Untold> {
    let annotations = &pod.metadata.annotations;
    let prefix = annotations.get(CONFIG_MAP).filter(|prefix| !prefix.is_empty());
    let prefix = prefix.ok_or(Untold::NoMap)?;
    let Some(named) = annotations.get("gpu-fraction-container-name") else {
        return Ok(format!("{prefix}-0"));
    };
    let spec = &pod.spec;
    for (mark, list) in [("i", &spec.init_containers), ("", &spec.containers)] {
        if let Some(at) = list.iter().position(|container| container.name == named) {
            return Ok(format!("{prefix}-{mark}{at}"));
        }
    }
    Err(Untold::NoContainer)
}

/// What a pod gets that has a part of these devices, by group.
///
/// # Errors
/// Why it cannot be told.
pub fn share(pod: &Pod, node: Option<&Node>, parts: &[(&str, &str)]) -> Result<Share, Untold> {
    let map = map_of(pod)?;
    let devices: Vec<String> = parts.iter().map(|(_, device)| (*device).to_owned()).collect();
    let portion = format!("{:.2}", portion(pod, node));
    let variables = [
        ("NVIDIA_VISIBLE_DEVICES", devices.join(",")),
        ("GPU_PORTION", portion.clone()),
        ("RUNAI_NUM_OF_GPUS", portion),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let maps = BTreeMap::from([
        (format!("{map}-evar"), BTreeMap::new()),
        (map, BTreeMap::from(variables)),
    ]);
    Ok(Share {
        devices,
        maps,
        labels: labels(pod, parts),
        annotations: BTreeMap::from([(RECEIVED.to_owned(), "Fraction".to_owned())]),
    })
}

/// One group is a label, several are one each. Those of a try before go.
fn labels(pod: &Pod, parts: &[(&str, &str)]) -> BTreeMap<String, Option<String>> {
    let mut labels: BTreeMap<String, Option<String>> = BTreeMap::new();
    if groups_of(pod).next().is_some() {
        let old = pod.metadata.labels.iter().map(|(label, _)| label);
        let old = old.filter(|label| *label == GROUP || label.starts_with("runai-gpu-group/"));
        labels.extend(old.map(|label| (label.to_owned(), None)));
    }
    match parts {
        [(group, _)] => drop(labels.insert(GROUP.to_owned(), Some((*group).to_owned()))),
        several => labels.extend(
            several
                .iter()
                .map(|(group, _)| (format!("{GROUP}/{group}"), Some((*group).to_owned()))),
        ),
    }
    labels
}

/// Of how many devices a pod asks for a part. As the engine reads it.
pub(crate) fn count(pod: &Pod) -> i64 {
    let text = pod.metadata.annotations.get("gpu-fraction-num-devices");
    let named = text.and_then(|text| text.parse::<i64>().ok());
    named.filter(|count| (1..=MOST_DEVICES).contains(count)).unwrap_or(1)
}

/// How much of each device a pod gets.
pub(crate) fn portion(pod: &Pod, node: Option<&Node>) -> f64 {
    match asks(pod) {
        Some(Asks::Fraction(portion)) => portion,
        Some(Asks::Memory(memory)) => ceil2(memory as f64 / device_memory(node) as f64).min(1.0),
        None => 0.0,
    }
}

/// How many mebibytes of each device a pod gets, as the engine counts them.
pub(crate) fn mebibytes(pod: &Pod, node: &Node) -> i64 {
    match asks(pod) {
        Some(Asks::Fraction(portion)) => (portion * device_memory(Some(node)) as f64) as i64,
        Some(Asks::Memory(memory)) => memory,
        None => 0,
    }
}

/// How many mebibytes each device of a node has.
pub(crate) fn device_memory(node: Option<&Node>) -> i64 {
    let label = node.and_then(|node| node.metadata.labels.get("nvidia.com/gpu.memory"));
    let all = label.and_then(|text| text.parse::<i64>().ok()).unwrap_or(UNKNOWN);
    // A label that is so large is in bytes, as the engine takes it.
    let all = if all >= 1 << 20 { all >> 20 } else { all };
    (all / 100 * 100).max(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "team", "uid": "u",
            "annotations": annotations, "labels": {"runai-gpu-group": "old"}},
            "spec": {"initContainers": [{"name": "before"}],
                "containers": [{"name": "main"}, {"name": "side"}]}}))
        .unwrap()
    }

    #[test]
    fn a_pod_gets_its_device_its_portion_and_its_group() {
        let pod = pod(json!({"gpu-fraction": "0.5", CONFIG_MAP: "p-abc-shared-gpu"}));
        let share = share(&pod, None, &[("g", "GPU-1")]).unwrap();
        let map = &share.maps["p-abc-shared-gpu-0"];
        assert_eq!(map["NVIDIA_VISIBLE_DEVICES"], "GPU-1");
        assert_eq!((&*map["GPU_PORTION"], &*map["RUNAI_NUM_OF_GPUS"]), ("0.50", "0.50"));
        assert!(share.maps.contains_key("p-abc-shared-gpu-0-evar"));
        assert_eq!(share.labels, BTreeMap::from([(GROUP.to_owned(), Some("g".to_owned()))]));
    }

    #[test]
    fn several_devices_are_several_labels_and_those_of_before_go() {
        let pod = pod(json!({"gpu-memory": "40000", "gpu-fraction-num-devices": "2",
            "gpu-fraction-container-name": "side", CONFIG_MAP: "p-abc-shared-gpu"}));
        let node = json!({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "81559"}}});
        let node: Node = serde_json::from_value(node).unwrap();
        let share = share(&pod, Some(&node), &[("g", "GPU-1"), ("h", "GPU-2")]).unwrap();
        let map = &share.maps["p-abc-shared-gpu-1"];
        assert_eq!(map["NVIDIA_VISIBLE_DEVICES"], "GPU-1,GPU-2");
        assert_eq!(map["GPU_PORTION"], "0.50");
        assert_eq!(share.labels.get(GROUP), Some(&None));
        assert_eq!(share.labels["runai-gpu-group/h"].as_deref(), Some("h"));
    }

    #[test]
    fn a_pod_that_nobody_prepared_is_not_told_anything() {
        let without = pod(json!({"gpu-fraction": "0.5"}));
        assert_eq!(share(&without, None, &[("g", "GPU-1")]), Err(Untold::NoMap));
        let other = pod(
            json!({"gpu-fraction": "0.5", CONFIG_MAP: "p", "gpu-fraction-container-name": "x"}),
        );
        assert_eq!(map_of(&other), Err(Untold::NoContainer));
        let before = pod(
            json!({"gpu-fraction": "0.5", CONFIG_MAP: "p", "gpu-fraction-container-name": "before"}),
        );
        assert_eq!(map_of(&before), Ok("p-i0".to_owned()));
    }
}
