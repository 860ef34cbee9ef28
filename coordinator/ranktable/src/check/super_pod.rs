//! The super-pods of version 1.2.
//!
//! A `super_device_id` holds, from the highest bit: ten bits server, four card, two die, sixteen physical id.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::{Report, Spot, list, shown};
use crate::order::is_decimal;

/// What the driver says when it knows none.
const NONE: u64 = 0xffff_ffff;

pub(super) fn check(json: &Json, servers: &[Json], report: &mut Report) {
    let has_ids = servers.iter().flat_map(|server| list(&server["device"])).any(|device| {
        let id = shown(&device["super_device_id"]);
        !id.is_empty() && !id.starts_with('-') && id != NONE.to_string()
    });
    if json["version"] != "1.2" {
        if json["version"] == "1.0" && (has_ids || json.get("super_pod_list").is_some()) {
            report.error("schema_chip_mismatch", Spot::default(), "version 1.0 with super-pods: the chip is of the A3 generation, and HCCL ignores its super-pods", "write version \"1.2\", as the shipped template for super-pods does");
        }
        return;
    }
    let Some(pods) = json.get("super_pod_list").map(list) else {
        return report.warning(
            "super_pod_list_missing",
            Spot::default(),
            "version 1.2 without super_pod_list: HCCL treats every server as its own",
            "add the super-pods to the template",
        );
    };
    let known: HashSet<String> = servers.iter().map(|server| shown(&server["server_id"])).collect();
    let mut ids = HashSet::new();
    let mut pod_of: HashMap<String, String> = HashMap::new();
    for pod in pods {
        let id = shown(&pod["super_pod_id"]);
        if id.is_empty() {
            report.error(
                "super_pod_id_empty",
                Spot::default(),
                "a super-pod has no super_pod_id",
                "see whether the agents report super-pods",
            );
        } else if !ids.insert(id.clone()) {
            report.error(
                "super_pod_id_duplicate",
                Spot::default(),
                format!("super-pod {id} is there twice"),
                "list every super-pod once",
            );
        }
        for server in list(&pod["server_list"]).iter().map(|server| shown(&server["server_id"])) {
            if !known.contains(&server) {
                report.error(
                    "super_pod_server_unknown",
                    Spot::server(&server),
                    format!("super-pod {id} lists a server that server_list does not have"),
                    "list the same servers in both",
                );
            }
            if let Some(other) = pod_of.insert(server.clone(), id.clone()) {
                report.error(
                    "super_pod_server_duplicate",
                    Spot::server(&server),
                    format!("the server is in super-pod {other} and in {id}"),
                    "list every server in one super-pod",
                );
            }
        }
    }
    let mut seen: HashMap<(String, u64), Spot> = HashMap::new();
    for server in servers {
        let server_id = shown(&server["server_id"]);
        let pod = pod_of.get(&server_id);
        if pod.is_none() {
            report.error(
                "server_without_super_pod",
                Spot::server(&server_id),
                "the server is in no super-pod",
                "list every server in a super-pod",
            );
        }
        for device in list(&server["device"]) {
            let spot = Spot::device(&server_id, device);
            if let Some(sdid) = super_device_id(device, &spot, report)
                && let Some(first) =
                    seen.insert((pod.cloned().unwrap_or_default(), sdid), spot.clone())
            {
                report.error(
                    "super_device_id_duplicate",
                    spot,
                    format!("super_device_id {sdid} is also that of {first}"),
                    "look at both devices with npu-smi",
                );
            }
        }
    }
}

fn super_device_id(device: &Json, spot: &Spot, report: &mut Report) -> Option<u64> {
    let text = shown(&device["super_device_id"]);
    if text.is_empty() {
        report.error(
            "super_device_id_missing",
            spot.clone(),
            "the device has no super_device_id",
            "see whether the node's agent reports it; the template needs the parser that reads it",
        );
        return None;
    }
    let id = text.parse::<u64>().ok().filter(|id| is_decimal(&text) && *id < NONE);
    let Some(id) = id else {
        let message = format!(
            "super_device_id {text:?} is no id: the driver knows none, or the device is in no super-pod"
        );
        report.error(
            "super_device_id_invalid",
            spot.clone(),
            message,
            "use version 1.0 on hosts without super-pods",
        );
        return None;
    };
    if shown(&device["device_id"]).parse::<u64>().is_ok_and(|device| device != id & 0xffff) {
        let message = format!("super_device_id {id} belongs to device {}", id & 0xffff);
        report.warning(
            "super_device_id_mismatch",
            spot.clone(),
            message,
            "see whether ids of another node were copied",
        );
    }
    Some(id)
}
