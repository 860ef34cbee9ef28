//! Version 2.0: ranks with the layers of their network, and numbers are integers.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value as Json;

use super::ranks::Ranks;
use super::{Report, Spot, list, shown};

pub(super) fn check(json: &Json, report: &mut Report) {
    match json.get("version") {
        None => report.error(
            "version_missing",
            Spot::default(),
            "there is no version",
            "add \"version\": \"2.0\" to the template",
        ),
        Some(version) if version == "2.0" => {}
        Some(version) => report.error(
            "version_unknown",
            Spot::default(),
            format!("version {version} is not known for a rank_list"),
            "write \"2.0\"",
        ),
    }
    let entries = list(&json["rank_list"]);
    if entries.is_empty() {
        report.error(
            "rank_list_empty",
            Spot::default(),
            "rank_list has no ranks",
            "see whether the pods of the group have the annotation ascend.com/ranktable",
        );
    }
    match json["rank_count"].as_u64() {
        Some(count) if count == entries.len() as u64 => {}
        _ => report.error(
            "rank_count_mismatch",
            Spot::default(),
            format!("rank_count is {}, but there are {} ranks", json["rank_count"], entries.len()),
            "write the count as an integer",
        ),
    }
    let mut ranks = Ranks::default();
    let mut addresses: HashMap<String, Spot> = HashMap::new();
    for entry in entries {
        let spot = Spot { server: None, ..Spot::device("", entry) };
        for key in ["rank_id", "local_id", "device_id"] {
            if entry[key].as_u64().is_none() {
                report.error(
                    "value_not_integer",
                    spot.clone(),
                    format!("{key} is {}, not an integer from 0", entry[key]),
                    "write it without quotes in version 2.0",
                );
            }
        }
        ranks.integer(entry, &spot, report);
        if entry["local_id"] != entry["device_id"] && entry["local_id"].is_u64() {
            report.warning(
                "local_id_mismatch",
                spot.clone(),
                "local_id is not device_id",
                "write the device's id in both",
            );
        }
        levels(entry, &spot, &mut addresses, report);
    }
    ranks.finish(report);
}

fn levels(entry: &Json, spot: &Spot, seen: &mut HashMap<String, Spot>, report: &mut Report) {
    let mut last = None;
    for level in list(&entry["level_list"]) {
        let layer = level["net_layer"].as_u64();
        match layer {
            Some(layer) if layer < 4 && last.is_none_or(|last| last < layer) => {}
            _ => report.error(
                "net_layer_invalid",
                spot.clone(),
                format!("net_layer {} is out of order or unknown", level["net_layer"]),
                "list the layers 0 to 3 in rising order, each once",
            ),
        }
        last = layer.or(last);
        if shown(&level["net_instance_id"]).is_empty() {
            report.error(
                "net_instance_id_empty",
                spot.clone(),
                "a layer has no net_instance_id",
                "name the network that the layer joins",
            );
        }
        for address in list(&level["rank_addr_list"]) {
            let text = shown(&address["addr"]);
            let readable = match address["addr_type"].as_str() {
                Some("IP") => text.parse::<IpAddr>().is_ok(),
                Some("EID") => {
                    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
                }
                _ => false,
            };
            if !readable {
                report.error(
                    "addr_invalid",
                    spot.clone(),
                    format!("addr {text:?} is no address of type {}", address["addr_type"]),
                    "write an EID of 32 hexadecimal digits, or an IP",
                );
            }
            if let Some(first) =
                seen.insert(text.clone(), spot.clone()).filter(|first| first != spot)
            {
                report.error(
                    "addr_duplicate",
                    spot.clone(),
                    format!("addr {text} is also that of {first}"),
                    "give every port an address of its own",
                );
            }
        }
    }
}
