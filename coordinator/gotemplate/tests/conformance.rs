//! Recorded behaviour of Go's engine, replayed.
//!
//! tests/conformance has the cases, or the folder that `MUSTER_CONFORMANCE` names.

use gotemplate::{Functions, MissingKey, Numbers, Template, Value, structure};
use muster_conformance::{Recordings, Test};
use serde_json::Value as Json;

#[derive(Default)]
struct Table {
    status: String,
    server_count: i64,
    total_devices: i64,
    timestamp: String,
    servers: Vec<Server>,
}

struct Server {
    server_id: String,
    devices: Vec<Device>,
}

struct Device {
    device_id: String,
    device_ip: String,
    rank_id: String,
}

structure!(Table as "main.RanktableTemplateData" {
    Status: status, ServerCount: server_count, TotalDevices: total_devices, Timestamp: timestamp, Servers: servers,
});
structure!(Server as "main.ServerInfo" { ServerId: server_id, Devices: devices });
structure!(Device as "main.DeviceWithRank" { DeviceId: device_id, DeviceIp: device_ip, RankId: rank_id });

fn text(json: &Json, key: &str) -> String {
    json[key].as_str().unwrap_or_default().to_owned()
}

fn each<T>(json: &Json, read: impl Fn(&Json) -> T) -> Vec<T> {
    json.as_array().map(|items| items.iter().map(read).collect()).unwrap_or_default()
}

fn table(json: &Json) -> Table {
    let device = |json: &Json| Device {
        device_id: text(json, "DeviceId"),
        device_ip: text(json, "DeviceIp"),
        rank_id: text(json, "RankId"),
    };
    let server = |json: &Json| Server {
        server_id: text(json, "ServerId"),
        devices: each(&json["Devices"], device),
    };
    Table {
        status: text(json, "Status"),
        server_count: json["ServerCount"].as_i64().unwrap_or_default(),
        total_devices: json["TotalDevices"].as_i64().unwrap_or_default(),
        timestamp: text(json, "Timestamp"),
        servers: each(&json["Servers"], server),
    }
}

/// What the case expects and what came out, if they differ.
fn miss(case: &Json) -> Option<String> {
    let functions = Functions::core();
    let functions = if case["funcs"] == "sprig" { functions.lenient() } else { functions };
    let expected = match case["output"].as_str() {
        Some(output) => Ok(output.to_owned()),
        None => Err(text(case, "error_class")),
    };
    let outcome = run(case, &functions);
    let partial_fits = case
        .get("partial_output")
        .and_then(Json::as_str)
        .is_none_or(|partial| partial == outcome.1);
    let shown = outcome.0.map_err(|error| (error.class.as_str().to_owned(), error.to_string()));
    let same = match (&expected, &shown) {
        (Ok(left), Ok(right)) => left == right,
        (Err(left), Err((right, _))) => left == right && partial_fits,
        _ => false,
    };
    (!same).then(|| {
        format!(
            "{}: {}\n    expected {expected:?}\n    got      {shown:?}",
            case["name"], case["template"]
        )
    })
}

fn run(case: &Json, functions: &Functions) -> (Result<String, gotemplate::Error>, String) {
    let template = match Template::parse("main", &text(case, "template"), functions) {
        Ok(template) => template,
        Err(error) => return (Err(error), String::new()),
    };
    let template = template.missing_key(match case["option"].as_str() {
        Some("missingkey=error") => MissingKey::Error,
        Some("missingkey=zero") => MissingKey::Zero,
        _ => MissingKey::Default,
    });
    let data = &case["data"];
    let mut out = Vec::new();
    let result = match case["mode"].as_str() {
        Some("seed") => template.execute(&table(data), &mut out),
        Some("typed") => template.execute(&Value::from_json(data, Numbers::Typed), &mut out),
        _ => template.execute(&Value::from_json(data, Numbers::Floats), &mut out),
    };
    let out = String::from_utf8_lossy(&out).into_owned();
    (result.map(|()| out.clone()), out)
}

fn main() -> std::process::ExitCode {
    let test = Test { name: "gotemplate_conformance", needs: "cases.json", replay };
    muster_conformance::run("gotemplate", &[test])
}

fn replay(recordings: &Recordings) -> Result<(), String> {
    let cases: Json = recordings.json("cases.json");
    let cases = cases.as_array().or_else(|| cases["cases"].as_array());
    let cases = cases.ok_or("cases.json has no list of cases")?;
    let misses: Vec<String> = cases.iter().filter_map(miss).collect();
    for miss in misses.iter().take(20) {
        println!("{miss}");
    }
    println!("conformance gotemplate: {} of {}", cases.len() - misses.len(), cases.len());
    let all = misses.is_empty() && !cases.is_empty();
    if all { Ok(()) } else { Err(format!("{} of {} cases differ", misses.len(), cases.len())) }
}
