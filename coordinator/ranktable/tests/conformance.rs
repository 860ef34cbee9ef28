//! Recorded behaviour of the original algorithm, replayed.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test reads its cases and its environment"
)]

use std::collections::BTreeMap;

use muster_conformance::{Recordings, Test};
use muster_ranktable::{ConfigMap, Order, Pod, RenderError, Rendered, Request, TableTemplate};
use serde_json::{Value as Json, json};

const NOW: &str = "2026-01-02T03:04:05Z";

fn text(json: &Json, key: &str) -> String {
    json[key].as_str().unwrap_or_default().to_owned()
}

fn config_map(name: &str, data: &[(&str, String)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    ConfigMap { name: name.to_owned(), data, ..ConfigMap::default() }
}

fn render(case: &Json, group: &str, order: Order) -> Result<Rendered, RenderError> {
    let template =
        config_map("template", &[("ranktable-template", text(case, "ranktable_template"))]);
    let parser = config_map("parser", &[("parser-template", text(case, "parser_template"))]);
    let template = TableTemplate::read_unverified(&template, Some(&parser))?;
    let pods = case["pods"].as_array().cloned().unwrap_or_default();
    let pods: Vec<Pod> = pods
        .iter()
        .filter(|pod| pod["group_key"] == group)
        .map(|pod| {
            let annotations: BTreeMap<String, String> =
                serde_json::from_value(pod["annotations"].clone()).unwrap_or_default();
            Pod { name: text(pod, "name"), annotations, ..Pod::default() }
        })
        .collect();
    let request = Request { changed: NOW, order: Some(order), lenient: true, ..Request::default() };
    template.render(&pods, &request)
}

fn data(rendered: &Rendered) -> Json {
    let table = &rendered.table;
    let devices = |server: &muster_ranktable::ServerInfo| -> Json {
        let device = |device: &muster_ranktable::DeviceWithRank| json!({"DeviceId": device.device_id, "DeviceIp": device.device_ip, "RankId": device.rank_id.as_str()});
        server.devices.iter().map(device).collect()
    };
    let servers: Json = table
        .servers
        .iter()
        .map(|server| json!({"ServerId": server.server_id, "Devices": devices(server)}))
        .collect();
    json!({"Status": table.status, "ServerCount": table.server_count, "TotalDevices": table.total_devices,
        "Timestamp": table.timestamp, "Servers": servers})
}

fn ranks(rendered: &Rendered) -> Json {
    let servers = rendered.table.servers.iter();
    let ranks = servers.flat_map(|server| {
        let devices = server.devices.iter();
        devices.map(|device| json!([server.server_id, device.device_id, device.rank_id.as_str()]))
    });
    ranks.collect()
}

/// What a group of a case expects and what came out, where they differ.
fn miss(case: &Json, expected: &Json) -> Option<String> {
    let group = text(expected, "group");
    let differs = |what: &str, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
        let name = &case["name"];
        Some(format!(
            "{name}, group {group}: {what}\n    expected {expected:?}\n    got      {got:?}"
        ))
    };
    let rendered = match (render(case, &group, Order::Lexical), expected["error_stage"].as_str()) {
        (Ok(rendered), None) => rendered,
        (Err(error), Some(stage)) if error.stage() == stage => return None,
        (Err(error), stage) => {
            return differs("error", &stage, &(error.stage(), error.to_string()));
        }
        (Ok(rendered), stage) => return differs("error", &stage, &rendered.text),
    };
    if rendered.text != text(expected, "rendered") {
        return differs("rendered", &text(expected, "rendered"), &rendered.text);
    }
    if data(&rendered) != expected["template_data"] {
        return differs("template_data", &expected["template_data"], &data(&rendered));
    }
    let json = serde_json::from_str::<Json>(&rendered.text).ok();
    if json.is_some() != expected["rendered_is_valid_json"].as_bool().unwrap_or_default() {
        return differs("valid JSON", &expected["rendered_is_valid_json"], &json);
    }
    let numeric = render(case, &group, Order::Numeric).map(|rendered| ranks(&rendered)).ok();
    let expected_ranks = match &expected["numeric_order_ranks"] {
        Json::Null => ranks(&rendered),
        ranks => ranks.clone(),
    };
    if numeric.as_ref() != Some(&expected_ranks) {
        return differs("numeric_order_ranks", &expected_ranks, &numeric);
    }
    let violations = expected["hccl_violations"].as_array()?;
    let mut found: Vec<&str> = muster_ranktable::check(&rendered.text, &Default::default())
        .iter()
        .filter(|finding| finding.severity == muster_ranktable::Severity::Error)
        .map(|finding| finding.code)
        .collect();
    found.sort_unstable();
    found.dedup();
    let mut violations: Vec<&str> = violations.iter().filter_map(Json::as_str).collect();
    violations.sort_unstable();
    if found != violations {
        return differs("hccl_violations", &violations, &found);
    }
    None
}

fn main() -> std::process::ExitCode {
    let test = Test { name: "ranktable_conformance", needs: "cases.json", replay };
    muster_conformance::run("ranktable", &[test])
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let cases: Vec<Json> = recordings.json("cases.json");
    let misses: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let groups = case["expected"].as_array().cloned().unwrap_or_default();
            groups.iter().filter_map(|expected| miss(case, expected)).collect()
        })
        .collect();
    for miss in misses.iter().flatten().take(10) {
        println!("{miss}");
    }
    let passed = misses.iter().filter(|misses| misses.is_empty()).count();
    println!("conformance ranktable: {passed} of {}", cases.len());
    let all = !cases.is_empty() && passed == cases.len();
    if all { Ok(()) } else { Err("not all recorded cases pass".to_owned()) }
}
