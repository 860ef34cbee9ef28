//! `template eval`.

use std::io::Write;

use gotemplate::{Functions, Numbers, Template, Value, structure};
use serde_json::Value as Json;

use crate::args::{EvalArgs, MissingKey, Mode};
use crate::{Failure, input};

pub(crate) fn eval(args: &EvalArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let source = input::text(&args.template)?;
    let functions = Functions::standard();
    let functions = if args.lenient { functions.lenient() } else { functions };
    // The path, so that no definition in the file has the same name.
    let name = args.template.display().to_string();
    let template = Template::parse(&name, &source, &functions)
        .map_err(Failure::wrong)?
        .missing_key(match args.missing_key {
            MissingKey::Default => gotemplate::MissingKey::Default,
            MissingKey::Zero => gotemplate::MissingKey::Zero,
            MissingKey::Error => gotemplate::MissingKey::Error,
        });
    let mut bytes = Vec::new();
    let ended = match args.mode {
        Mode::Json | Mode::Typed => {
            let numbers = if args.mode == Mode::Json { Numbers::Floats } else { Numbers::Typed };
            let text = input::text(&args.data)?;
            let data = Value::read_json(text.as_bytes(), numbers)
                .map_err(|error| input::wrong(&args.data, error))?;
            template.execute(&data, &mut bytes)
        }
        Mode::Table => template.execute(&table(&input::json(&args.data)?), &mut bytes),
        Mode::String => {
            let text = input::text(&args.data)?;
            // A JSON string is the text in it; anything else is itself the text.
            let text = serde_json::from_str::<String>(&text).unwrap_or(text);
            template.execute(text.as_str(), &mut bytes)
        }
    };
    ended.map_err(Failure::wrong)?;
    out.write_all(&bytes)?;
    Ok(false)
}

/// The structs that a table template sees, with whatever values the file has.
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

fn table(json: &Json) -> Table {
    let text = |json: &Json, key: &str| json[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| json[key].as_i64().unwrap_or_default();
    let device = |json: &Json| Device {
        device_id: text(json, "DeviceId"),
        device_ip: text(json, "DeviceIp"),
        rank_id: text(json, "RankId"),
    };
    let server = |json: &Json| Server {
        server_id: text(json, "ServerId"),
        devices: json["Devices"].as_array().into_iter().flatten().map(device).collect(),
    };
    Table {
        status: text(json, "Status"),
        server_count: number("ServerCount"),
        total_devices: number("TotalDevices"),
        timestamp: text(json, "Timestamp"),
        servers: json["Servers"].as_array().into_iter().flatten().map(server).collect(),
    }
}
