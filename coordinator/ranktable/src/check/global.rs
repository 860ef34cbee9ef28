//! MindIE's table of tables: group 0 coordinates, group 1 controls, the others infer.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::Value as Json;

use super::address::Addresses;
use super::ranks::Ranks;
use super::{Facts, Report, Spot, count, list, shown};
use crate::order::is_decimal;

/// A table of tables, as far as it was read.
struct Global<'a> {
    facts: &'a Facts,
    report: &'a mut Report,
    /// Ids of groups.
    ids: HashSet<String>,
    addresses: Addresses,
    /// Where each device was named first, by server and id.
    seen: HashMap<(String, String), Spot>,
}

pub(super) fn check(json: &Json, facts: &Facts, report: &mut Report) {
    check_version(json, report);
    let groups = list(&json["server_group_list"]);
    if groups.is_empty() {
        report.error(
            "server_group_list_empty",
            Spot::default(),
            "server_group_list has no groups",
            "see whether the pods of the group have their annotation",
        );
    }
    let (ids, addresses, seen) = (HashSet::new(), Addresses::default(), HashMap::new());
    let mut global = Global { facts, report, ids, addresses, seen };
    groups.iter().for_each(|group| global.check_group(group));
    for (id, who) in [("0", "coordinator"), ("1", "controller")] {
        if !groups.is_empty() && !global.ids.contains(id) {
            global.report.warning(
                "service_group_missing",
                Spot::default(),
                format!("there is no group {id}: MindIE finds no {who}"),
                "add the group, even with other means of finding it",
            );
        }
    }
}

fn check_version(json: &Json, report: &mut Report) {
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
}

// === impl Global ===

impl Global<'_> {
    fn check_group(&mut self, group: &Json) {
        let id = shown(&group["group_id"]);
        self.check_group_id(&id);
        let (servers, infers) = (list(&group["server_list"]), id != "0" && id != "1");
        if servers.is_empty() && infers {
            self.report.error(
                "server_list_empty",
                Spot::default(),
                format!("group {id} has no servers"),
                "leave out groups without servers",
            );
        }
        let (code, none) = ("server_count_mismatch", Spot::default());
        count(group, "server_count", code, servers.len(), none, self.report);
        let mut ranks = Ranks::default();
        for server in servers {
            let server_id = shown(&server["server_id"]);
            self.check_server(server, &server_id, &id);
            let devices = list(&server["device"]);
            if infers == devices.is_empty() {
                let (code, message) = match infers {
                    true => ("device_list_empty", "the server has no devices"),
                    false => ("device_list_unexpected", "a coordinator or controller has devices"),
                };
                self.report.error(code, Spot::server(&server_id), format!("{message} in group {id}"), "groups 0 and 1 are for the coordinator and the controller, instances begin at 2");
            }
            for device in devices {
                self.check_device(device, &server_id, &mut ranks);
            }
        }
        ranks.finish(self.report);
    }

    fn check_group_id(&mut self, id: &str) {
        if !is_decimal(id) {
            self.report.error(
                "group_id_invalid",
                Spot::default(),
                format!("group_id {id:?} is no number"),
                "number the groups as texts from \"0\"",
            );
        } else if !self.ids.insert(id.to_owned()) {
            self.report.error(
                "group_id_duplicate",
                Spot::default(),
                format!("group {id} is there twice"),
                "give every group an id of its own",
            );
        }
    }

    fn check_server(&mut self, server: &Json, server_id: &str, group: &str) {
        let spot = Spot::server(server_id);
        if server_id.is_empty() {
            self.report.error(
                "server_id_empty",
                spot.clone(),
                format!("a server of group {group} has no server_id"),
                "see the annotation of its pod",
            );
        }
        if self.facts.pod_ips.contains(server_id) {
            self.report.error(
                "server_id_is_pod_ip",
                spot.clone(),
                "server_id is the address of a pod",
                "write the node's address there, and the pod's into server_ip",
            );
        }
        let address = &server["server_ip"];
        if shown(address).parse::<IpAddr>().is_err() {
            self.report.error(
                "server_ip_invalid",
                spot,
                format!("server_ip {address} is no address: MindIE calls the pod there"),
                "write the pod's address",
            );
        }
    }

    fn check_device(&mut self, device: &Json, server_id: &str, ranks: &mut Ranks) {
        let spot = Spot::device(server_id, device);
        let device_id = shown(&device["device_id"]);
        if !is_decimal(&device_id) {
            self.report.error(
                "device_id_not_decimal",
                spot.clone(),
                format!("device_id {device_id:?} is no plain number"),
                "write the physical id of the device",
            );
        }
        let device_key = (server_id.to_owned(), device_id);
        if let Some(first) = self.seen.insert(device_key, spot.clone()) {
            self.report.error(
                "device_id_duplicate",
                spot.clone(),
                format!("the device is there twice, first as {first}"),
                "see which two pods have the device in their annotation",
            );
        }
        self.addresses.note(&shown(&device["device_ip"]), &spot, self.report);
        ranks.text(device, &spot, self.report);
    }
}
