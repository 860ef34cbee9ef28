//! Assembly and rendering of tables of several sizes, beside writing the same bytes with a formatter by hand.
//!
//! `cargo bench -p muster-ranktable --bench assemble` prints the best times, and the median of the whole. All steps
//! count: annotations through the parser template, grouping, order, numbering, the table template and the look whether
//! the output is JSON.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark reads the clock"
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use muster_ranktable::{ConfigMap, Pod, Request, Table, TableTemplate};

const TEMPLATE: &str =
    include_str!("../../../deploy/templates/ascend-ranktable-template-mindie-role.yaml");

fn pods(count: usize) -> Vec<Pod> {
    let pod = |number: usize| {
        let device = |device: usize| {
            let (high, low) = (number >> 8, number & 255);
            format!(r#"{{"device_id":"{device}","device_ip":"192.{high}.{low}.{}"}}"#, device + 2)
        };
        let devices = (0..8).map(device).collect::<Vec<_>>().join(",");
        let (high, low) = (number >> 8, number & 255);
        let text = format!(
            r#"{{"pod_name":"w-{number}","server_id":"10.1.{high}.{low}","devices":[{devices}]}}"#
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

/// Milliseconds.
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

fn main() {
    let template = ConfigMap::read(TEMPLATE).expect("the shipped template is a ConfigMap");
    let template = TableTemplate::read(&template, None).expect("the shipped template is right");
    let request = Request { changed: "2026-01-02T03:04:05Z", ..Request::default() };
    println!(
        "{:>8} {:>8} {:>9} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "ranks",
        "KiB",
        "parse ms",
        "assemble ms",
        "write ms",
        "all ms",
        "median",
        "µs/rank",
        "hand ms",
        "ratio"
    );
    for (count, rounds) in [(125, 400), (1250, 40), (12_500, 10)] {
        let pods = pods(count);
        let rendered = template.render(&pods, &request).expect("the pods make a table");
        assert_eq!(by_hand(&rendered.table), rendered.text, "both write the same bytes");
        let parse = measure(rounds, || {
            pods.iter().for_each(|pod| drop(template.parse(pod.annotation().unwrap_or_default())));
        });
        let assemble = measure(rounds, || drop(template.assemble(&pods, &request)));
        let write = measure(rounds, || drop(template.write(&rendered.table, false)));
        let all = measure(rounds, || drop(template.render(&pods, &request)));
        let hand = measure(rounds, || drop(by_hand(&rendered.table)));
        let ranks = rendered.table.total_devices;
        println!(
            "{ranks:>8} {:>8} {:>9.3} {:>12.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>7.1}",
            rendered.text.len() >> 10,
            parse.best,
            assemble.best,
            write.best,
            all.best,
            all.median,
            all.best * 1e3 / ranks as f64,
            hand.best,
            all.best / hand.best,
        );
    }
}
