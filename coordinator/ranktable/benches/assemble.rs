//! Assembly and rendering of tables of several sizes, beside writing the same bytes with a formatter by hand.
//!
//! `cargo bench -p muster-ranktable` prints the medians. All steps count: annotations through the parser template,
//! grouping, order, numbering, the table template and the look whether the output is JSON.
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

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

fn main() {
    let template = ConfigMap::read(TEMPLATE).expect("the shipped template is a ConfigMap");
    let template = TableTemplate::read(&template, None).expect("the shipped template is right");
    let request = Request { changed: "2026-01-02T03:04:05Z", ..Request::default() };
    println!(
        "{:>8} {:>8} {:>12} {:>10} {:>9} {:>9} {:>9} {:>7}",
        "ranks", "KiB", "assemble ms", "write ms", "all ms", "µs/rank", "hand ms", "ratio"
    );
    for (count, rounds) in [(125, 51), (1250, 21), (12_500, 9)] {
        let pods = pods(count);
        let rendered = template.render(&pods, &request).expect("the pods make a table");
        assert_eq!(by_hand(&rendered.table), rendered.text, "both write the same bytes");
        let assemble = median(rounds, || drop(template.assemble(&pods, &request)));
        let write = median(rounds, || drop(template.write(&rendered.table, false)));
        let all = median(rounds, || drop(template.render(&pods, &request)));
        let hand = median(rounds, || drop(by_hand(&rendered.table)));
        let ranks = rendered.table.total_devices;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{ranks:>8} {:>8} {:>12.3} {:>10.3} {:>9.3} {:>9.3} {:>9.3} {:>7.1}",
            rendered.text.len() >> 10,
            ms(assemble),
            ms(write),
            ms(all),
            ms(all) * 1e3 / ranks as f64,
            ms(hand),
            ms(all) / ms(hand),
        );
    }
}
