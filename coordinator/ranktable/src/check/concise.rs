//! Versions 1.0 and 1.2: servers with devices, and every value is a text.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::Value as Json;

use super::address::Addresses;
use super::ranks::Ranks;
use super::{Chip, Facts, Report, Spot, count, list, shown, super_pod};
use crate::order::{is_decimal, numeric};

/// Longer ids were cut by older versions.
const LONGEST_SERVER_ID: usize = 64;

pub(super) fn check(json: &Json, facts: &Facts, report: &mut Report) {
    match json.get("version") {
        None => report.error(
            "version_missing",
            Spot::default(),
            "there is no version: HCCL reads the table as a group_list and finds none",
            "add \"version\": \"1.0\" to the template",
        ),
        Some(Json::String(version)) if version == "1.0" || version == "1.2" => {}
        Some(version) => report.error(
            "version_unknown",
            Spot::default(),
            format!("version {version} is not known for a server_list"),
            "write \"1.0\", or \"1.2\" for super-pods",
        ),
    }
    texts_only(json, "", report);
    let servers = list(&json["server_list"]);
    match json.get("server_list") {
        None => {
            return report.error(
                "server_list_missing",
                Spot::default(),
                "there is no server_list",
                "add it to the template",
            );
        }
        Some(_) if servers.is_empty() => {
            report.error(
                "server_list_empty",
                Spot::default(),
                "server_list has no servers",
                "see whether the pods of the group have the annotation ascend.com/ranktable",
            );
        }
        Some(_) => {}
    }
    count(json, "server_count", "server_count_mismatch", servers.len(), Spot::default(), report);
    let one_super_pod = json["version"] == "1.2" && list(&json["super_pod_list"]).len() == 1;
    let mut walk = Walk { facts, ranks: Ranks::default(), addresses: Addresses::default(), report };
    let mut ids: HashSet<String> = HashSet::new();
    for server in servers {
        let id = walk.server(server);
        if !id.is_empty() && !ids.insert(id.clone()) {
            walk.report.error(
                "server_id_duplicate",
                Spot::server(&id),
                format!("server_id {id:?} is there twice"),
                "put all devices of a server under one entry",
            );
        }
        let host_stands_in = !matches!(facts.chip, None | Some(Chip::Ascend910B))
            && server["host_ip"].as_str().is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
        let need = servers.len() > 1 && !one_super_pod && !host_stands_in;
        walk.devices(server, &id, need);
    }
    walk.ranks.finish(report);
    even(servers, report);
    super_pod::check(json, servers, report);
}

/// One pass over servers and devices.
struct Walk<'a> {
    facts: &'a Facts,
    ranks: Ranks,
    addresses: Addresses,
    report: &'a mut Report,
}

// === impl Walk ===

impl Walk<'_> {
    /// The server's own fields; returns its id.
    fn server(&mut self, server: &Json) -> String {
        let id = shown(&server["server_id"]);
        let spot = Spot::server(&id);
        if id.is_empty() {
            self.report.error(
                "server_id_empty",
                spot.clone(),
                "a server has no server_id",
                "see whether its pods' annotation has a server_id",
            );
        }
        if id.len() > LONGEST_SERVER_ID {
            self.report.warning(
                "server_id_too_long",
                spot.clone(),
                format!("server_id has {} bytes", id.len()),
                "keep it at 64 or less",
            );
        }
        let host = server.get("host_ip").map(shown).unwrap_or_default();
        if !host.is_empty() && host.parse::<IpAddr>().is_err() {
            self.report.error(
                "host_ip_invalid",
                spot.clone(),
                format!("host_ip {host:?} is no address"),
                "write the node's address, or leave it out",
            );
        }
        let container = server.get("container_ip").map(shown).unwrap_or_default();
        let is_pods = container == id && !host.is_empty() && host != id;
        if !id.is_empty() && (is_pods || self.facts.pod_ips.contains(&id)) {
            self.report.error(
                "server_id_is_pod_ip",
                spot,
                format!("server_id {id} is the address of a pod: pods of one node would count as several servers"),
                "use the address of the node, as Muster's agent does",
            );
        }
        id
    }

    fn devices(&mut self, server: &Json, id: &str, need_address: bool) {
        let devices = list(&server["device"]);
        if devices.is_empty() {
            self.report.error(
                "device_list_empty",
                Spot::server(id),
                "the server has no devices",
                "take its pods out of the group, or wait for their annotation",
            );
        }
        let mut seen: HashMap<String, Spot> = HashMap::new();
        let mut last: Option<(String, u64)> = None;
        for device in devices {
            let spot = Spot::device(id, device);
            self.device_id(device, &spot, &mut seen);
            self.ranks.text(device, &spot, self.report);
            let address = device.get("device_ip").map(shown).unwrap_or_default();
            if address.is_empty() && need_address {
                self.report.error(
                    "device_ip_missing_multi_server",
                    spot.clone(),
                    "the device has no device_ip, but the table has several servers",
                    "give the device an address with hccn_tool, and write it in the template",
                );
            }
            self.addresses.note(&address, &spot, self.report);
            ports(device, &spot, self.report);
            let now = (
                shown(&device["device_id"]),
                shown(&device["rank_id"]).parse().unwrap_or_default(),
            );
            if let Some((device, rank)) = &last
                && numeric(device, &now.0).is_lt() != (*rank < now.1)
            {
                self.report.warning("rank_order_not_numeric", spot, "ranks of this server do not rise with its device ids: frameworks that take the local rank from the position use another device", "use rank-order: numeric in the template");
                last = None;
                continue;
            }
            last = Some(now);
        }
        let count = devices.len();
        if self.facts.chip == Some(Chip::Ascend910A) && ![0, 1, 2, 4, 8].contains(&count) {
            self.report.error(
                "device_count_not_allowed",
                Spot::server(id),
                format!("the server has {count} devices, 910A takes 1, 2, 4 or 8"),
                "change the number of devices per pod",
            );
        }
    }

    fn device_id(&mut self, device: &Json, spot: &Spot, seen: &mut HashMap<String, Spot>) {
        let Some(id) = device.get("device_id").map(shown) else {
            return self.report.error(
                "device_id_missing",
                spot.clone(),
                "the device has no device_id",
                "add it to the template",
            );
        };
        if let Some(first) = seen.insert(id.clone(), spot.clone()) {
            let message = format!("device {id} of this server is there twice, first as {first}");
            self.report.error(
                "device_id_duplicate",
                spot.clone(),
                message,
                "see which two pods have the device in their annotation",
            );
        }
        if !is_decimal(&id) {
            let message = format!("device_id {id:?} is no plain number");
            return self.report.error(
                "device_id_not_decimal",
                spot.clone(),
                message,
                "write the physical id of the device, the N of /dev/davinciN, as text",
            );
        }
        let limit = match self.facts.chip {
            Some(Chip::Ascend910A) => 8,
            Some(Chip::Ascend910B | Chip::A3) => 16,
            Some(Chip::Ascend310P) => 64,
            _ => return,
        };
        if id.parse::<u64>().is_ok_and(|id| id >= limit) {
            let message = format!("device_id {id} is too high: this chip has ids below {limit}");
            self.report.error(
                "device_id_out_of_range",
                spot.clone(),
                message,
                "write the physical id of the device",
            );
        }
    }
}

/// In these versions HCCL refuses numbers.
fn texts_only(json: &Json, path: &str, report: &mut Report) {
    match json {
        Json::String(_) => {}
        Json::Array(items) => items.iter().enumerate().for_each(|(index, item)| {
            texts_only(item, &format!("{path}[{index}]"), report);
        }),
        Json::Object(entries) => entries
            .iter()
            .filter(|(key, _)| *key != "status" || !path.is_empty())
            .for_each(|(key, item)| texts_only(item, &format!("{path}.{key}"), report)),
        other => report.error(
            "value_not_string",
            Spot::default(),
            format!("{} is {other}, not a text", path.trim_start_matches('.')),
            "quote it in the template",
        ),
    }
}

fn ports(device: &Json, spot: &Spot, report: &mut Report) {
    for key in ["device_port", "device_vnic_port", "host_port", "backup_device_port"] {
        let Some(port) = device.get(key).map(shown) else { continue };
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            report.error(
                "port_invalid",
                spot.clone(),
                format!("{key} {port:?} is no port"),
                "write a number from 1 to 65535 as text",
            );
        }
    }
    if device.get("backup_device_port").is_some()
        && device["backup_device_port"] == device["device_port"]
    {
        report.error(
            "backup_port_same",
            spot.clone(),
            "backup_device_port is device_port",
            "give the backup another port",
        );
    }
    if device["backup_device_ip"]
        .as_str()
        .is_some_and(|ip| !ip.split(',').all(|ip| ip.parse::<IpAddr>().is_ok()))
    {
        report.error(
            "backup_device_ip_invalid",
            spot.clone(),
            "backup_device_ip is no address",
            "write the address of the twin die",
        );
    }
    for (key, words) in [("net_position", ["host", "device"]), ("net_protocol", ["rdma", "tcp"])] {
        if device[key].as_str().is_some_and(|word| !words.contains(&word)) {
            report.error(
                "net_word_unknown",
                spot.clone(),
                format!("{key} is neither {} nor {}", words[0], words[1]),
                "use one of the two",
            );
        }
    }
}

/// Uneven servers are allowed and rarely meant.
fn even(servers: &[Json], report: &mut Report) {
    let counts =
        servers.iter().map(|server| list(&server["device"]).len()).filter(|count| *count > 0);
    let (least, most) =
        counts.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
    if least < most {
        report.warning(
            "device_count_uneven",
            Spot::default(),
            format!("servers have between {least} and {most} devices"),
            "give every server the same number, unless it is meant so",
        );
    }
}
