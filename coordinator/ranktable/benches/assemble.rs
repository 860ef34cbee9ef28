//! Assembly and rendering of tables of several sizes, beside the limits that they must keep and beside the floor: the
//! same bytes, written with a formatter by hand.
//!
//! `hack/bench/ranktable/run` prints the best times, and the median of the whole. All steps count: annotations through
//! the parser template, grouping, order and numbering (assemble), the table template (render), and the look whether
//! the output is JSON (check). It fails if even the best time is beyond twice its limit; what is beyond it once is only
//! printed, since other programs may have had the machine.
//!
//! There are two tables: the seed's (the standard parser, MindIE's template), whose bytes are also written by hand, and
//! that of an A3 super-pod (the extended parser, HCCL 1.2), which has more of everything.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::exit,
    reason = "a benchmark reads the clock"
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use muster_ranktable::{ConfigMap, Pod, Request, Table, TableTemplate};
use serde::de::IgnoredAny;

/// Pods of eight devices, rounds, and the milliseconds that all of it may take.
const SIZES: [(usize, usize, Option<f64>); 3] =
    [(125, 400, Some(3.0)), (1250, 60, None), (12_500, 20, Some(250.0))];
/// How much more a rank of a table may take than one of a table of a tenth of the size.
const GROWTH: f64 = 1.5;
/// What other programs on the machine may cost.
const NOISE: f64 = 2.0;

const SEED: &str =
    include_str!("../../../deploy/templates/ascend-ranktable-template-mindie-role.yaml");
const SUPER_POD: &str =
    include_str!("../../../deploy/templates/ascend-ranktable-template-hccl-1-2.yaml");
const EXTENDED: &str =
    include_str!("../../../deploy/templates/ascend-pod-ranktable-parser-extended.yaml");

fn pods(count: usize, super_pod: bool) -> Vec<Pod> {
    let pod = |number: usize| {
        let device = |device: usize| {
            let (high, low) = (number >> 8, number & 255);
            let more = match super_pod {
                true => format!(r#","super_device_id":"{}""#, (number & 63) << 22 | device),
                false => String::new(),
            };
            let last = device + 2;
            format!(r#"{{"device_id":"{device}","device_ip":"192.{high}.{low}.{last}"{more}}}"#)
        };
        let devices = (0..8).map(device).collect::<Vec<_>>().join(",");
        let (high, low) = (number >> 8, number & 255);
        let more = match super_pod {
            true => {
                format!(r#","super_pod_id":"{}","server_index":"{}""#, number >> 6, number & 63)
            }
            false => String::new(),
        };
        let text = format!(
            r#"{{"pod_name":"w-{number}","server_id":"10.1.{high}.{low}","devices":[{devices}]{more}}}"#
        );
        let annotations = [("ascend.com/ranktable".to_owned(), text)].into();
        Pod { name: format!("w-{number}"), namespace: "n".into(), annotations, ..Pod::default() }
    };
    (0..count).map(pod).collect()
}

/// The same bytes as the template writes, by hand.
fn by_hand(table: &Table) -> String {
    let mut out = String::with_capacity(1024 + table.total_devices * 192);
    write!(
        out,
        "{{\n  \"version\": \"1.0\",\n  \"server_count\": \"{}\",\n  \"server_list\": [",
        table.server_count
    )
    .unwrap();
    for (index, server) in table.servers.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(
            out,
            "{comma}\n    {{\n      \"server_id\": \"{}\",\n      \"device\": [",
            server.server_id
        )
        .unwrap();
        for (index, device) in server.devices.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(
                out,
                "{comma}\n        {{\n          \"device_id\": \"{}\",\n          \"device_ip\": \"{}\",\n          \"rank_id\": \"{}\"\n        }}",
                device.device_id, device.device_ip, device.rank_id
            )
            .unwrap();
        }
        out.push_str("\n      ]\n    }");
    }
    write!(out, "\n  ],\n  \"status\": \"{}\"\n}}\n", table.status).unwrap();
    out
}

struct Times {
    best: f64,
    median: f64,
}

fn measure(rounds: usize, mut work: impl FnMut()) -> Times {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Times { best: ms(times[0]), median: ms(times[rounds / 2]) }
}

fn verdict(value: f64, limit: f64) -> &'static str {
    match value / limit {
        part if part <= 1.0 => "kept",
        part if part <= NOISE => "beyond; noise?",
        _ => "MISSED",
    }
}

/// Measures one table at all sizes; what to say of its limits, and whether each was kept.
fn table(name: &str, template: &TableTemplate, super_pod: bool) -> Vec<(String, &'static str)> {
    let request = Request { changed: "2026-01-02T03:04:05Z", ..Request::default() };
    println!(
        "{name:<10} {:>8} {:>7} {:>11} {:>9} {:>8} {:>8} {:>9} {:>8} {:>8} {:>9} {:>6}",
        "ranks",
        "KiB",
        "assemble ms",
        "render ms",
        "check ms",
        "all ms",
        "median ms",
        "µs/rank",
        "limit ms",
        "floor ms",
        "ratio"
    );
    let mut verdicts = Vec::new();
    let mut last: Option<(usize, f64)> = None;
    for (count, rounds, limit) in SIZES {
        let pods = pods(count, super_pod);
        let rendered = template.render(&pods, &request).expect("the pods make a table");
        let assemble = measure(rounds, || drop(template.assemble(&pods, &request)));
        // Told to be lenient, nobody looks whether it is JSON.
        let render = measure(rounds, || drop(template.write(&rendered.table, true)));
        let check = measure(rounds, || drop(serde_json::from_str::<IgnoredAny>(&rendered.text)));
        let all = measure(rounds, || drop(template.render(&pods, &request)));
        let floor = (!super_pod).then(|| {
            assert_eq!(by_hand(&rendered.table), rendered.text, "both write the same bytes");
            measure(rounds, || drop(by_hand(&rendered.table)))
        });
        let ranks = rendered.table.total_devices;
        let per_rank = all.best * 1e3 / ranks as f64;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        println!(
            "{:<10} {ranks:>8} {:>7} {:>11.3} {:>9.3} {:>8.3} {:>8.3} {:>9.3} {:>8.3} {:>8} {:>9} {:>6}",
            "",
            rendered.text.len() >> 10,
            assemble.best,
            render.best,
            check.best,
            all.best,
            all.median,
            per_rank,
            or_none(limit.map(|limit| limit.to_string())),
            or_none(floor.as_ref().map(|floor| format!("{:.3}", floor.best))),
            or_none(floor.as_ref().map(|floor| format!("{:.1}", all.best / floor.best))),
        );
        if let Some(limit) = limit {
            let best = all.best;
            let what = format!("{name}, {ranks} ranks: {best:.2} ms of {limit} ms allowed");
            verdicts.push((what, verdict(best, limit)));
        }
        if let Some((before, last)) = last {
            let growth = per_rank / last;
            let what = format!(
                "{name}, {before} to {ranks} ranks: a rank takes {growth:.2} times as long, {GROWTH} allowed"
            );
            verdicts.push((what, verdict(growth, GROWTH)));
        }
        last = Some((ranks, per_rank));
    }
    verdicts
}

fn main() {
    let read = |text: &str| ConfigMap::read(text).expect("what is shipped is a ConfigMap");
    let template = |text: &str, parser: Option<&ConfigMap>| {
        TableTemplate::read(&read(text), parser).expect("what is shipped is right")
    };
    let mut verdicts = table("seed", &template(SEED, None), false);
    verdicts.extend(table("super-pod", &template(SUPER_POD, Some(&read(EXTENDED))), true));
    for (what, verdict) in &verdicts {
        println!("{what}: {verdict}");
    }
    if verdicts.iter().any(|(_, verdict)| *verdict == "MISSED") {
        std::process::exit(1);
    }
}
