//! Rank tables of several sizes, rendered here and by Go's own engine; `hack/bench/gotemplate/run` starts it.
//!
//! Both render the same bytes, which a checksum proves, and take turns, so that a busy machine is busy for both.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reads the clock and its environment"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use gotemplate::{Functions, Template, structure};

struct Device {
    device_id: String,
    device_ip: String,
    rank_id: String,
}

struct Server {
    server_id: String,
    devices: Vec<Device>,
}

struct Table {
    status: String,
    server_count: i64,
    total_devices: i64,
    timestamp: String,
    servers: Vec<Server>,
}

structure!(Device as "main.device" { DeviceId: device_id, DeviceIp: device_ip, RankId: rank_id });
structure!(Server as "main.server" { ServerId: server_id, Devices: devices });
structure!(Table as "main.table" {
    Status: status, ServerCount: server_count, TotalDevices: total_devices, Timestamp: timestamp, Servers: servers,
});

fn table(servers: usize, devices: usize) -> Table {
    let device = |s: usize, d: usize| Device {
        device_id: d.to_string(),
        device_ip: format!("192.{}.{}.{d}", s >> 8, s & 255),
        rank_id: (s * devices + d).to_string(),
    };
    let server = |s: usize| Server {
        server_id: format!("10.{}.{}.{}", s >> 16, s >> 8 & 255, s & 255),
        devices: (0..devices).map(|d| device(s, d)).collect(),
    };
    Table {
        status: "completed".to_owned(),
        server_count: i64::try_from(servers).unwrap(),
        total_devices: i64::try_from(servers * devices).unwrap(),
        timestamp: "T".to_owned(),
        servers: (0..servers).map(server).collect(),
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The fastest and the median round.
fn measure(template: &Template, data: &Table, rounds: usize) -> (Duration, Duration, Vec<u8>) {
    let mut out = Vec::new();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            out.clear();
            let start = Instant::now();
            template.execute(data, &mut out).expect("the template fits its data");
            start.elapsed()
        })
        .collect();
    times.sort();
    (times[0], times[rounds / 2], out)
}

fn main() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/bench/gotemplate/ranktable.tmpl");
    let path = std::env::var("GOTEMPLATE_BENCH_TEMPLATE").unwrap_or_else(|_| beside.to_owned());
    let source = std::fs::read_to_string(&path).expect("the template can be read");
    let template =
        Template::parse("ranktable", &source, &Functions::core()).expect("the template parses");
    let go = std::env::var("GOTEMPLATE_BENCH_GO").ok();
    println!("{:>8} {:>9} {:>12} {:>12} {:>7}", "ranks", "KiB", "rust ms", "go ms", "ratio");
    for (servers, rounds) in [(125, 101), (1250, 41), (12_500, 11)] {
        let devices = 8;
        let data = table(servers, devices);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut size = 0;
        for _ in 0..3 {
            let (_, median, out) = measure(&template, &data, rounds);
            ours.push(median);
            size = out.len();
            let Some(go) = &go else { continue };
            let arguments = [servers, devices, rounds].map(|number| number.to_string());
            let run =
                Command::new(go).arg(&path).args(&arguments).output().expect("the Go program runs");
            let line = String::from_utf8(run.stdout).expect("text");
            let numbers: Vec<u64> =
                line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            assert_eq!(numbers[3], checksum(&out), "both engines write the same bytes");
            theirs.push(Duration::from_nanos(numbers[1]));
        }
        ours.sort();
        theirs.sort();
        let ranks = servers * devices;
        let ours = ours[1].as_secs_f64() * 1e3;
        match theirs.get(1) {
            Some(theirs) => {
                let theirs = theirs.as_secs_f64() * 1e3;
                println!(
                    "{ranks:>8} {:>9} {ours:>12.3} {theirs:>12.3} {:>7.1}",
                    size >> 10,
                    theirs / ours
                );
            }
            None => println!("{ranks:>8} {:>9} {ours:>12.3} {:>12} {:>7}", size >> 10, "-", "-"),
        }
    }
}
