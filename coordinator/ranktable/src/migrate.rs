//! From hccl-controller and ascend-operator to here: their annotations and their tables.
//!
//! ```text
//!   pod annotation …/ascend-910-configuration ─┐
//!   (ascend-npu-configuration)                 ├─▶ ascend.com/ranktable, as our agent writes it
//!   hccl.json: group_list, 1.0, 1.2 ───────────┘─▶ and the ranks, for `rank-stability: keep`
//! ```
//!
//! Current device plugins name a server by the pod's uid and give the node's address beside it; a table needs the
//! node, so the address is taken. What the driver did not know (-1, -2, 4294967295) is left out.

use std::net::IpAddr;

use muster_proto::annotation::{AnnotatedDevice, AnnotationError, PodRanktable};
use serde_json::{Value as Json, json};

use crate::check::{Format, format};
use crate::diff;
use crate::number::Numbering;
use crate::order::numeric;
use crate::pod::Pod;

/// The annotations of the device plugin, newest first.
pub const ANNOTATIONS: [&str; 2] = [
    "ascend.kubectl.kubernetes.io/ascend-npu-configuration",
    "ascend.kubectl.kubernetes.io/ascend-910-configuration",
];

/// What the driver says when it knows no id in the super-pod.
const UNKNOWN: [&str; 3] = ["-1", "-2", "4294967295"];

/// A table that was taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Migrated {
    /// What each pod, or where pods are not named each server, holds.
    pub pods: Vec<PodRanktable>,
    /// The ranks that the table gave.
    pub ranks: Numbering,
    /// The same as a table of version 1.0, or 1.2 where it has super-pods.
    pub table: String,
}

/// Why something cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrateError {
    /// The annotation cannot be read.
    #[error("pod {pod}, annotation {key}: {error}")]
    Annotation {
        /// The pod.
        pod: String,
        /// The annotation.
        key: &'static str,
        /// Why.
        error: AnnotationError,
    },
    /// The table is no JSON.
    #[error("the table is no JSON: {0}")]
    NotJson(String),
    /// The table is of another kind.
    #[error(
        "the table has neither a group_list nor a server_list: only tables of hccl-controller and ascend-operator (versions 1.0 and 1.2) can be taken over"
    )]
    Format,
}

// === impl MigrateError ===

impl MigrateError {
    /// The kind, for people and scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Annotation { .. } => "annotation-malformed",
            Self::NotJson(_) => "table-not-json",
            Self::Format => "table-format-unknown",
        }
    }
}

/// What our annotation would say of a pod; none if the pod has none of theirs.
pub fn annotation(pod: &Pod) -> Result<Option<PodRanktable>, MigrateError> {
    let found = ANNOTATIONS.iter().find_map(|key| Some((*key, pod.annotations.get(*key)?)));
    let Some((key, text)) = found else { return Ok(None) };
    let error = |error| MigrateError::Annotation { pod: pod.full_name(), key, error };
    let mut read = PodRanktable::parse(text).map_err(error)?;
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    if let Some(address) = node_address(&json, &read.server_id, pod) {
        read.server_id = address;
    }
    pod.name.clone_into(&mut read.pod_name);
    Ok(Some(tidy(read)))
}

/// Takes over a table.
pub fn table(text: &str) -> Result<Migrated, MigrateError> {
    let json: Json =
        serde_json::from_str(text).map_err(|error| MigrateError::NotJson(error.to_string()))?;
    let (entries, devices_key) = match format(&json) {
        Some(Format::Legacy) => {
            let groups = json["group_list"].as_array().cloned().unwrap_or_default();
            let instances =
                groups.into_iter().filter_map(|group| group["instance_list"].as_array().cloned());
            (instances.flatten().collect(), "devices")
        }
        Some(Format::Concise) => {
            (json["server_list"].as_array().cloned().unwrap_or_default(), "device")
        }
        _ => return Err(MigrateError::Format),
    };
    let known = diff::members(&json).unwrap_or_default();
    let mut ranks = Numbering::default();
    let mut pods = Vec::new();
    for entry in &entries {
        let theirs = text_of(&entry["server_id"]);
        let server =
            node_address(entry, &theirs, &Pod::default()).unwrap_or_else(|| theirs.clone());
        let mut devices = Vec::new();
        for device in entry[devices_key].as_array().into_iter().flatten() {
            let Ok(mut read) = serde_json::from_value::<AnnotatedDevice>(device.clone()) else {
                continue;
            };
            read.extras.remove("rank_id");
            let seat = diff::Seat { server: theirs.clone(), device: read.device_id.clone() };
            if let Some(rank) = known.get(&seat).and_then(|(rank, _)| u32::try_from(*rank).ok()) {
                ranks.insert(&server, &read.device_id, rank);
            }
            devices.push(read);
        }
        let pod_name = match text_of(&entry["pod_name"]) {
            name if name.is_empty() => theirs.clone(),
            name => name,
        };
        let super_pod_id = super_pod_of(&json, &theirs);
        pods.push(tidy(PodRanktable {
            pod_name,
            server_id: server,
            devices,
            super_pod_id,
            server_index: None,
        }));
    }
    let table = write(&pods, &ranks);
    Ok(Migrated { pods, ranks, table })
}

/// The address of the node, where the server's own id is something else.
fn node_address(json: &Json, server_id: &str, pod: &Pod) -> Option<String> {
    if server_id.parse::<IpAddr>().is_ok() {
        return None;
    }
    let said = ["host_ip", "server_ip"].iter().map(|key| text_of(&json[*key]));
    let mut candidates = said.chain([pod.host_ip.clone()]);
    candidates.find(|address| address.parse::<IpAddr>().is_ok())
}

/// Without what is not known, devices by number.
fn tidy(mut pod: PodRanktable) -> PodRanktable {
    let known = |text: &String| !text.is_empty() && !UNKNOWN.contains(&text.as_str());
    pod.super_pod_id = pod.super_pod_id.filter(known);
    pod.server_index = pod.server_index.filter(known);
    for device in &mut pod.devices {
        device.super_device_id = device.super_device_id.take().filter(known);
        if device.device_ip == "-1" {
            device.device_ip.clear();
        }
    }
    pod.devices.sort_by(|one, other| numeric(&one.device_id, &other.device_id));
    pod
}

fn super_pod_of(json: &Json, server: &str) -> Option<String> {
    let pods = json["super_pod_list"].as_array()?;
    let lists = |pod: &&Json| {
        let servers = pod["server_list"].as_array();
        servers.is_some_and(|servers| servers.iter().any(|one| one["server_id"] == server))
    };
    pods.iter().find(lists).map(|pod| text_of(&pod["super_pod_id"]))
}

/// The table, with the ranks that it had; pods of one server share an entry.
fn write(pods: &[PodRanktable], ranks: &Numbering) -> String {
    let mut servers: Vec<(&str, Vec<Json>)> = Vec::new();
    let mut super_pods: Vec<(&str, Vec<Json>)> = Vec::new();
    for pod in pods {
        let devices = pod.devices.iter().filter_map(|device| {
            let rank = ranks.rank(&pod.server_id, &device.device_id)?.to_string();
            let mut entry = json!({"device_id": device.device_id, "device_ip": device.device_ip, "rank_id": rank});
            if let (Some(id), Some(_)) = (&device.super_device_id, &pod.super_pod_id) {
                entry["super_device_id"] = json!(id);
            }
            Some(entry)
        });
        let devices = devices.collect::<Vec<_>>();
        match servers.iter_mut().find(|(id, _)| *id == pod.server_id) {
            Some((_, there)) => there.extend(devices),
            None => {
                servers.push((&pod.server_id, devices));
                let Some(id) = &pod.super_pod_id else { continue };
                let server = json!({"server_id": pod.server_id});
                match super_pods.iter_mut().find(|(there, _)| *there == id) {
                    Some((_, servers)) => servers.push(server),
                    None => super_pods.push((id, vec![server])),
                }
            }
        }
    }
    let count = servers.len().to_string();
    let listed = |(id, device): (&str, Vec<Json>)| json!({"server_id": id, "device": device});
    let servers: Json = servers.into_iter().map(listed).collect();
    let version = if super_pods.is_empty() { "1.0" } else { "1.2" };
    let mut table = json!({"version": version, "status": "completed", "server_count": count, "server_list": servers});
    if !super_pods.is_empty() {
        let listed =
            |(id, servers): (&str, Vec<Json>)| json!({"super_pod_id": id, "server_list": servers});
        table["super_pod_list"] = super_pods.into_iter().map(listed).collect();
    }
    serde_json::to_string_pretty(&table).unwrap_or_default()
}

fn text_of(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Facts, check};

    #[test]
    fn an_annotation_of_the_device_plugin_becomes_ours() {
        let text = r#"{"pod_name":"old","server_id":"9f0c1d6e-58f5-4a0a-8f0e-2b1f3f9d7c11","host_ip":"192.168.50.12",
            "super_pod_id":-2,"devices":[{"device_id":"10","device_ip":"10.10.2.3","super_device_id":"4294967295"},
            {"device_id":"2","device_ip":"-1"}],"rack_id":-1,"server_index":"-2","server_ip":"192.168.50.12"}"#;
        let annotations = [(ANNOTATIONS[1].to_owned(), text.to_owned())].into();
        let pod = Pod { name: "w-1".into(), annotations, ..Pod::default() };
        let migrated = annotation(&pod).unwrap().unwrap();
        assert_eq!(
            migrated.write(),
            r#"{"pod_name":"w-1","server_id":"192.168.50.12","devices":[{"device_id":"2","device_ip":""},{"device_id":"10","device_ip":"10.10.2.3"}]}"#
        );
        assert_eq!(annotation(&Pod::default()), Ok(None));
        let annotations = [(ANNOTATIONS[0].to_owned(), "{".to_owned())].into();
        let broken = Pod { name: "w-1".into(), annotations, ..Pod::default() };
        assert_eq!(annotation(&broken).unwrap_err().reason(), "annotation-malformed");
    }

    #[test]
    fn a_legacy_table_gives_pods_ranks_and_a_table_that_passes() {
        let text = r#"{"status":"completed","group_count":"1","group_list":[{"group_name":"j","device_count":"3",
            "instance_count":"2","instance_list":[
            {"pod_name":"j-0","server_id":"192.168.50.12","devices":[{"device_id":"0","device_ip":"10.0.0.1"},{"device_id":"1","device_ip":"10.0.0.2"}]},
            {"pod_name":"j-1","server_id":"192.168.50.11","devices":[{"device_id":"0","device_ip":"10.0.0.3"}]}]}]}"#;
        let migrated = table(text).unwrap();
        assert_eq!(migrated.pods[1].pod_name, "j-1");
        assert_eq!(migrated.ranks.rank("192.168.50.12", "1"), Some(1));
        assert_eq!(migrated.ranks.rank("192.168.50.11", "0"), Some(2));
        let errors = check(&migrated.table, &Facts::default());
        assert!(errors.iter().all(|finding| finding.code == "device_count_uneven"), "{errors:?}");
    }

    #[test]
    fn a_table_with_super_pods_keeps_them() {
        let text = r#"{"version":"1.2","status":"completed","server_count":"1","server_list":[{"server_id":"uid-a",
            "host_ip":"192.168.60.40","device":[{"device_id":"1","device_ip":"10.0.244.11","super_device_id":"167837697","rank_id":"1"},
            {"device_id":"0","device_ip":"10.0.245.11","super_device_id":"167772160","rank_id":"0"}]}],
            "super_pod_list":[{"super_pod_id":"0","server_list":[{"server_id":"uid-a"}]}]}"#;
        let migrated = table(text).unwrap();
        assert_eq!(migrated.pods[0].super_pod_id.as_deref(), Some("0"));
        assert_eq!(migrated.ranks.rank("192.168.60.40", "1"), Some(1));
        assert_eq!(check(&migrated.table, &Facts::default()), []);
        assert_eq!(table("{}"), Err(MigrateError::Format));
        assert_eq!(table("").unwrap_err().reason(), "table-not-json");
    }
}
