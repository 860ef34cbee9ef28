//! The table without a version: groups of instances, and ranks by position.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::address::Addresses;
use super::{Facts, Report, Spot, count, list, shown};
use crate::order::is_decimal;

pub(super) fn check(json: &Json, facts: &Facts, report: &mut Report) {
    if json.get("version").is_some() {
        report.error(
            "version_unexpected",
            Spot::default(),
            "a group_list with a version: HCCL looks for a server_list",
            "drop the version, or render a server_list",
        );
    }
    let groups = list(&json["group_list"]);
    if groups.is_empty() {
        report.error(
            "group_list_empty",
            Spot::default(),
            "group_list has no groups",
            "see whether the pods of the group have their annotation",
        );
    }
    count(json, "group_count", "group_count_mismatch", groups.len(), Spot::default(), report);
    let mut addresses = Addresses::default();
    let mut seen: HashMap<(String, String), Spot> = HashMap::new();
    for group in groups {
        let instances = list(&group["instance_list"]);
        if instances.is_empty() {
            report.error(
                "instance_list_empty",
                Spot::default(),
                format!("group {} has no instances", shown(&group["group_name"])),
                "list the pods of the group",
            );
        }
        let devices = instances.iter().map(|instance| list(&instance["devices"]).len()).sum();
        count(
            group,
            "instance_count",
            "instance_count_mismatch",
            instances.len(),
            Spot::default(),
            report,
        );
        count(group, "device_count", "device_count_mismatch", devices, Spot::default(), report);
        let servers: HashSet<String> =
            instances.iter().map(|instance| shown(&instance["server_id"])).collect();
        for instance in instances {
            let server = shown(&instance["server_id"]);
            if server.is_empty() {
                report.error(
                    "server_id_empty",
                    Spot::default(),
                    format!("pod {} has no server_id", shown(&instance["pod_name"])),
                    "see the annotation of the pod",
                );
            } else if facts.pod_ips.contains(&server) {
                report.error(
                    "server_id_is_pod_ip",
                    Spot::server(&server),
                    "server_id is the address of a pod",
                    "use the address of the node",
                );
            }
            if list(&instance["devices"]).is_empty() {
                report.error(
                    "device_list_empty",
                    Spot::server(&server),
                    format!("pod {} has no devices", shown(&instance["pod_name"])),
                    "take the pod out of the group",
                );
            }
            for device in list(&instance["devices"]) {
                let spot = Spot::device(&server, device);
                let id = shown(&device["device_id"]);
                if !is_decimal(&id) {
                    report.error(
                        "device_id_not_decimal",
                        spot.clone(),
                        format!("device_id {id:?} is no plain number"),
                        "write the physical id of the device",
                    );
                }
                if let Some(first) = seen.insert((server.clone(), id), spot.clone()) {
                    report.error(
                        "device_id_duplicate",
                        spot.clone(),
                        format!("the device is there twice, first as {first}"),
                        "see which two pods have the device in their annotation",
                    );
                }
                let address = shown(&device["device_ip"]);
                if address.is_empty() && servers.len() > 1 {
                    report.error(
                        "device_ip_missing_multi_server",
                        spot.clone(),
                        "the device has no device_ip, but the table has several servers",
                        "give the device an address with hccn_tool",
                    );
                }
                addresses.note(&address, &spot, report);
            }
        }
    }
}
