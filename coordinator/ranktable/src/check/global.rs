//! MindIE's table of tables: group 0 coordinates, group 1 controls, the others infer.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::Value as Json;

use super::address::Addresses;
use super::ranks::Ranks;
use super::{Facts, Report, Spot, count, list, shown};
use crate::order::is_decimal;

pub(super) fn check(json: &Json, facts: &Facts, report: &mut Report) {
    match json.get("version") {
        None => report.error(
            "version_missing",
            Spot::default(),
            "there is no version",
            "add \"version\": \"1.0\" to the template",
        ),
        Some(version) if version == "1.0" || version == "1.2" => {}
        Some(version) => report.error(
            "version_unknown",
            Spot::default(),
            format!("version {version} is not known for a server_group_list"),
            "write \"1.0\", or \"1.2\" for super-pods",
        ),
    }
    let groups = list(&json["server_group_list"]);
    if groups.is_empty() {
        report.error(
            "server_group_list_empty",
            Spot::default(),
            "server_group_list has no groups",
            "see whether the pods of the group have their annotation",
        );
    }
    let mut ids = HashSet::new();
    let mut addresses = Addresses::default();
    let mut seen: HashMap<(String, String), Spot> = HashMap::new();
    for group in groups {
        let id = shown(&group["group_id"]);
        if !is_decimal(&id) {
            report.error(
                "group_id_invalid",
                Spot::default(),
                format!("group_id {id:?} is no number"),
                "number the groups as texts from \"0\"",
            );
        } else if !ids.insert(id.clone()) {
            report.error(
                "group_id_duplicate",
                Spot::default(),
                format!("group {id} is there twice"),
                "give every group an id of its own",
            );
        }
        let servers = list(&group["server_list"]);
        if servers.is_empty() && id != "0" && id != "1" {
            report.error(
                "server_list_empty",
                Spot::default(),
                format!("group {id} has no servers"),
                "leave out groups without servers",
            );
        }
        count(
            group,
            "server_count",
            "server_count_mismatch",
            servers.len(),
            Spot::default(),
            report,
        );
        let infers = id != "0" && id != "1";
        let mut ranks = Ranks::default();
        for server in servers {
            let server_id = shown(&server["server_id"]);
            let spot = Spot::server(&server_id);
            if server_id.is_empty() {
                report.error(
                    "server_id_empty",
                    spot.clone(),
                    format!("a server of group {id} has no server_id"),
                    "see the annotation of its pod",
                );
            }
            if facts.pod_ips.contains(&server_id) {
                report.error(
                    "server_id_is_pod_ip",
                    spot.clone(),
                    "server_id is the address of a pod",
                    "write the node's address there, and the pod's into server_ip",
                );
            }
            if shown(&server["server_ip"]).parse::<IpAddr>().is_err() {
                report.error(
                    "server_ip_invalid",
                    spot.clone(),
                    format!(
                        "server_ip {} is no address: MindIE calls the pod there",
                        server["server_ip"]
                    ),
                    "write the pod's address",
                );
            }
            let devices = list(&server["device"]);
            if infers == devices.is_empty() {
                let (code, message) = match infers {
                    true => ("device_list_empty", "the server has no devices"),
                    false => ("device_list_unexpected", "a coordinator or controller has devices"),
                };
                report.error(code, spot, format!("{message} in group {id}"), "groups 0 and 1 are for the coordinator and the controller, instances begin at 2");
            }
            for device in devices {
                let spot = Spot::device(&server_id, device);
                let device_id = shown(&device["device_id"]);
                if !is_decimal(&device_id) {
                    report.error(
                        "device_id_not_decimal",
                        spot.clone(),
                        format!("device_id {device_id:?} is no plain number"),
                        "write the physical id of the device",
                    );
                }
                if let Some(first) = seen.insert((server_id.clone(), device_id), spot.clone()) {
                    report.error(
                        "device_id_duplicate",
                        spot.clone(),
                        format!("the device is there twice, first as {first}"),
                        "see which two pods have the device in their annotation",
                    );
                }
                addresses.note(&shown(&device["device_ip"]), &spot, report);
                ranks.text(device, &spot, report);
            }
        }
        ranks.finish(report);
    }
    for (id, who) in [("0", "coordinator"), ("1", "controller")] {
        if !groups.is_empty() && !ids.contains(id) {
            report.warning(
                "service_group_missing",
                Spot::default(),
                format!("there is no group {id}: MindIE finds no {who}"),
                "add the group, even with other means of finding it",
            );
        }
    }
}
