//! The file in which the kubelet's device manager remembers its allocations, in its own format.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_proto::Message;
use serde::{Deserialize, Serialize};

use super::devices::{Devices, Held};

/// What the checkpoint could not be read for.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is no such JSON.
    #[error("device checkpoint: {0}")]
    Json(#[from] serde_json::Error),
    /// Its content and its checksum differ.
    #[error("device checkpoint is corrupt: checksum {found}, content has {expected}")]
    Checksum {
        /// In the file.
        found: u64,
        /// Of the content.
        expected: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
    checksum: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<CheckpointEntry>>,
    registered_devices: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CheckpointEntry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container_name: String,
    #[serde(rename = "ResourceName")]
    resource_name: String,
    /// By NUMA node; -1 is a device without one.
    #[serde(rename = "DeviceIDs")]
    device_ids: BTreeMap<i64, Vec<String>>,
    #[serde(rename = "AllocResp")]
    alloc_resp: String,
}

/// The checkpoint of these devices, one line of JSON.
pub fn write(devices: &Devices) -> Result<String, CheckpointError> {
    let entries: Vec<CheckpointEntry> = devices
        .held()
        .iter()
        .map(|held| {
            let mut device_ids: BTreeMap<i64, Vec<String>> = BTreeMap::new();
            for id in &held.ids {
                let numa = devices.find(&held.resource, id).and_then(|r| r.device.numa);
                device_ids.entry(numa.unwrap_or(-1)).or_default().push(id.clone());
            }
            let answer = devices.answer(&held.resource, &held.ids).encode_to_vec();
            CheckpointEntry {
                pod_uid: held.pod.clone(),
                container_name: held.container.clone(),
                resource_name: held.resource.clone(),
                device_ids,
                alloc_resp: STANDARD.encode(answer),
            }
        })
        .collect();
    let registered_devices = devices
        .registered()
        .iter()
        .map(|(resource, all)| {
            let healthy = all.iter().filter(|r| r.healthy).map(|r| r.device.id.clone());
            (resource.clone(), healthy.collect())
        })
        .collect();
    let pod_device_entries = (!entries.is_empty()).then_some(entries);
    let data = Data { pod_device_entries, registered_devices };
    let checksum = data.checksum();
    Ok(serde_json::to_string(&File { data, checksum })?)
}

/// Who holds what, from a checkpoint.
pub fn read(text: &str) -> Result<Vec<Held>, CheckpointError> {
    let file: File = serde_json::from_str(text)?;
    let expected = file.data.checksum();
    if expected != file.checksum {
        return Err(CheckpointError::Checksum { found: file.checksum, expected });
    }
    let entries = file.data.pod_device_entries.unwrap_or_default();
    Ok(entries
        .into_iter()
        .map(|entry| Held {
            pod: entry.pod_uid,
            container: entry.container_name,
            resource: entry.resource_name,
            ids: entry.device_ids.into_values().flatten().collect(),
        })
        .collect())
}

// === impl Data ===

impl Data {
    /// FNV-1a over the text that the kubelet prints of its own struct.
    fn checksum(&self) -> u64 {
        let mut text = String::from("(checkpoint.checkpointData){PodDeviceEntries:");
        text.push_str("([]checkpoint.PodDevicesEntry)");
        match &self.pod_device_entries {
            None => text.push_str("<nil>"),
            Some(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(CheckpointEntry::as_go_prints).collect();
                // Writing into a String cannot fail.
                let _written = write!(text, "[{}]", entries.join(" "));
            }
        }
        let devices: Vec<String> = self
            .registered_devices
            .iter()
            .map(|(resource, ids)| format!("{resource}:[{}]", ids.join(" ")))
            .collect();
        let _written =
            write!(text, " RegisteredDevices:(map[string][]string)map[{}]}}", devices.join(" "));
        let hash = text
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        u64::from(hash)
    }
}

// === impl CheckpointEntry ===

impl CheckpointEntry {
    fn as_go_prints(&self) -> String {
        let ids: Vec<String> = self
            .device_ids
            .iter()
            .map(|(numa, ids)| format!("{numa}:[{}]", ids.join(" ")))
            .collect();
        let answer = match STANDARD.decode(&self.alloc_resp) {
            Ok(bytes) if !bytes.is_empty() => {
                let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
                format!("[{}]", bytes.join(" "))
            }
            _ => "<nil>".to_owned(),
        };
        format!(
            "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} \
             DeviceIDs:(checkpoint.DevicesPerNUMA)map[{}] AllocResp:([]uint8){}}}",
            self.pod_uid,
            self.container_name,
            self.resource_name,
            ids.join(" "),
            answer
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::hardware::Profile;

    const NPU: &str = "huawei.com/Ascend910";

    fn devices() -> Devices {
        let mut devices = Devices::default();
        devices.register(NPU, Profile::Ascend910b8.devices(0));
        devices
    }

    /// Numbers printed by a Go program that hashes the kubelet's types as the kubelet does.
    #[test]
    fn the_checksum_is_the_kubelets() {
        let entry = |uid: &str, name: &str, ids, resp: &str| CheckpointEntry {
            pod_uid: uid.into(),
            container_name: name.into(),
            resource_name: "r/x".into(),
            device_ids: ids,
            alloc_resp: resp.into(),
        };
        let strings = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = BTreeMap::from([
            (6, strings(&["a", "b"])),
            (-1, strings(&["z"])),
            (10, strings(&["q"])),
        ]);
        let data = Data {
            pod_device_entries: Some(vec![
                entry("u-1", "c", first, "CgbIAA=="),
                entry("u-2", "d", BTreeMap::from([(0, strings(&["e"]))]), ""),
            ]),
            registered_devices: BTreeMap::from([
                ("r/x".into(), strings(&["a", "b"])),
                ("r/y".into(), vec![]),
            ]),
        };
        assert_eq!(data.checksum(), 2_938_641_232);
        let empty = Data { pod_device_entries: None, registered_devices: BTreeMap::new() };
        assert_eq!(empty.checksum(), 3_467_439_661);
    }

    #[test]
    fn a_checkpoint_groups_ids_by_numa_node_and_reads_back() {
        let mut devices = devices();
        let limits = json!({ "limits": { NPU: "3" } });
        let pod = json!({ "metadata": { "uid": "u" },
            "spec": { "containers": [{ "name": "c", "resources": limits }] } });
        devices.allocate(&pod).unwrap();
        let text = write(&devices).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let entry = &file["Data"]["PodDeviceEntries"][0];
        assert_eq!(
            entry["DeviceIDs"],
            json!({ "6": ["Ascend910-0", "Ascend910-1"], "4": ["Ascend910-2"] })
        );
        assert_eq!(file["Data"]["RegisteredDevices"][NPU].as_array().unwrap().len(), 8);
        let mut held = read(&text).unwrap();
        held[0].ids.sort();
        assert_eq!(held, devices.held());
    }

    #[test]
    fn a_damaged_checkpoint_is_refused() {
        let text = write(&devices()).unwrap().replace("Ascend910-7", "Ascend910-9");
        assert!(matches!(read(&text), Err(CheckpointError::Checksum { .. })));
    }
}
