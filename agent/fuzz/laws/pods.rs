//! Who holds what: the kubelet's words, pods' annotations, and what is made of them.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent::kubelet::assign::{AssignInput, assign as decide};
use muster_agent::kubelet::checkpoint::{Checkpoint, CheckpointEntry};
use muster_agent::kubelet::device_id::{DeviceId, ResourceName, ResourceNames};
use muster_agent::pods::{PodMap, PodMeta};
use muster_proto::Message;
use muster_proto::annotation::{LARGEST, MOST_DEVICES, PodRanktable};
use muster_proto::device::{Device, Inventory, Mig, Vendor};
use muster_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use muster_proto::pod::PodRef;
use muster_proto::podresources::v1::{
    ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources,
};
use serde_json::Value;

use super::ascending;

/// The checkpoint, the answer of a plugin in it, and ids of devices (one in a line).
pub fn kubelet(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let mut found = false;
    if let Ok(read) = Checkpoint::parse(text) {
        for entry in &read.entries {
            found = true;
            check(entry);
        }
    }
    if let Ok(answer) = ContainerAllocateResponse::decode(bytes) {
        let entry = CheckpointEntry { answer: Some(answer), ..CheckpointEntry::default() };
        found |= check(&entry);
    }
    if let Ok(listed) = ListPodResourcesResponse::decode(bytes) {
        found |= listed.pod_resources.iter().any(|pod| !pod.name.is_empty());
    }
    let inventory = two_gpus();
    for line in text.lines().take(256) {
        for vendor in [Vendor::Ascend, Vendor::Nvidia] {
            let Some(id) = DeviceId::parse(vendor, line, &inventory) else { continue };
            found = true;
            assert!(id.vendor == vendor && id.is_whole() == id.part.is_none());
            assert!(id.part.is_none_or(|part| part == line && part.len() <= 256));
        }
        if let Ok(name) = line.parse::<ResourceName>() {
            found = true;
            assert_eq!(name.to_string().parse(), Ok(name.clone()), "printed and read again");
            let vendor = name.vendor;
            let exact = name.pattern.trim_end_matches('*').to_owned();
            assert_eq!(ResourceNames(vec![name]).vendor(&exact), Some(vendor));
        }
    }
    found
}

fn check(entry: &CheckpointEntry) -> bool {
    assert!(ascending(&entry.ids), "an id twice");
    let told = [Vendor::Ascend, Vendor::Nvidia].map(|vendor| {
        let really = entry.really(vendor);
        if let Some(ids) = &really {
            let mut sorted = ids.clone();
            sorted.sort();
            assert!(ascending(&sorted) && (1..=MOST_DEVICES).contains(&ids.len()));
        }
        really.is_some()
    });
    told.contains(&true)
}

fn two_gpus() -> Inventory {
    let gpu = |id, uuid: &str| Device {
        uuid: Some(uuid.into()),
        mig: vec![Mig { uuid: format!("MIG-{id}"), profile: "1g.10gb".into() }],
        ..Device::new(Vendor::Nvidia, id, "/dev/nvidia0")
    };
    Inventory { devices: vec![gpu(0, "GPU-a"), gpu(1, "GPU-b")], ..Inventory::default() }
}

/// The pods' annotation: what was read is written as something that is read the same.
pub fn annotation(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let read = match PodRanktable::parse(text) {
        Ok(read) => read,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!(read.devices.len() <= MOST_DEVICES);
    let written = read.write();
    assert!(!written.is_empty());
    // Fractions may lose their last bit each time they are read; we write none.
    let whole = !read.devices.iter().any(|device| device.extras.values().any(has_fraction));
    if whole && written.len() <= LARGEST {
        let again = PodRanktable::parse(&written);
        assert_eq!(again.as_ref(), Ok(&read), "written and read again");
    }
    true
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        _ => false,
    }
}

/// Four lines decide who holds what: pods, what the socket lists, the checkpoint, the inventory. All JSON:
///
/// ```text
/// {"ns/name": {"uid": "u", "annotations": {"huawei.com/AscendReal": "Ascend910-0"}, "deleting": false}}
/// {"ns/name": {"container": {"huawei.com/Ascend910": ["Ascend910-0"]}}}
/// {"Data": {"PodDeviceEntries": []}}
/// {"settled": true, "drivers": [], "devices": [], "nics": [], "links": [], "addresses": []}
/// ```
pub fn assign(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let mut json = || lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let pods = json().as_ref().and_then(Value::as_object).map(pods_of).unwrap_or_default();
    let listed = json();
    let listed = listed.as_ref().and_then(Value::as_object).map(|pods| {
        let pod_resources = pods.iter().map(|(key, containers)| listed_pod(key, containers));
        ListPodResourcesResponse { pod_resources: pod_resources.collect() }
    });
    let checkpoint = lines.next().and_then(|line| Checkpoint::parse(line).ok());
    let inventory = lines.next().and_then(|line| serde_json::from_str(line).ok());
    let (inventory, resources): (Inventory, _) =
        (inventory.unwrap_or_default(), ResourceNames::default());
    let known = AssignInput {
        pods: &pods,
        listed: listed.as_ref(),
        checkpoint: checkpoint.as_ref(),
        inventory: &inventory,
        resources: &resources,
        last: &[],
        ended: &BTreeSet::new(),
    };
    let decided = decide(known);
    assert!(decided.pods.len() + decided.unresolved.len() <= pods.len());
    let names: Vec<(&str, &str)> =
        decided.pods.iter().map(|it| (it.pod.namespace.as_str(), it.pod.name.as_str())).collect();
    assert!(ascending(&names), "a pod twice, or out of order");
    for held in &decided.pods {
        let key = (held.pod.namespace.clone(), held.pod.name.clone());
        assert_eq!(pods.get(&key).map(|meta| &meta.pod), Some(&held.pod));
        assert!(ascending(&held.devices), "a device twice, or out of order");
        assert!(held.devices.iter().all(|it| resources.vendor(&it.resource) == Some(it.vendor)));
    }
    assert!(decided.findings.iter().all(|finding| !finding.reason.is_empty()));
    assert_eq!(decide(known), decided);
    !decided.pods.is_empty()
}

fn pods_of(pods: &serde_json::Map<String, Value>) -> PodMap {
    let of = |(key, it): (&String, &Value)| {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let annotations = it["annotations"].as_object().into_iter().flatten();
        let meta = PodMeta {
            pod: PodRef { namespace: namespace.into(), name: name.into(), uid: text(&it["uid"]) },
            annotations: annotations.map(|(key, value)| (key.clone(), text(value))).collect(),
            rank_group: None,
            deleting: it["deleting"].as_bool().unwrap_or(false),
        };
        ((namespace.to_owned(), name.to_owned()), meta)
    };
    pods.iter().map(of).collect()
}

fn listed_pod(key: &str, containers: &Value) -> PodResources {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let containers: BTreeMap<&String, &Value> =
        containers.as_object().into_iter().flatten().collect();
    let devices = |(resource, ids): (&String, &Value)| ContainerDevices {
        resource_name: resource.clone(),
        device_ids: ids
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Into::into)
            .collect(),
        topology: None,
    };
    let container = |(name, of): (&String, &Value)| ContainerResources {
        name: name.clone(),
        devices: of.as_object().into_iter().flatten().map(devices).collect(),
        ..ContainerResources::default()
    };
    PodResources {
        name: name.into(),
        namespace: namespace.into(),
        containers: containers.into_iter().map(container).collect(),
    }
}
