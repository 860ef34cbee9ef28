//! The page: everything that the agent knows, on one screen.

use std::fmt::{Display, Write};

use muster_program::page::{STYLE, escape};
use muster_proto::device::PortState;

use super::Snapshot;
use crate::discover::matrix;

/// The page of this moment.
pub(super) fn render(now: &Snapshot) -> String {
    let mut page = String::with_capacity(16 * 1024);
    let node = escape(&now.node);
    // Writing into a String cannot fail, here and below.
    let _written = write!(
        page,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>{node} · muster-agent</title><style>{STYLE}</style><h1>{node}</h1>"
    );
    let state = match now.not_ready {
        None => "<span class=\"good\">ready</span>".to_owned(),
        Some(why) => format!("<span class=\"bad\">not ready:</span> {why}"),
    };
    let server = now.server_id.as_deref().unwrap_or("not known yet");
    let _written = write!(
        page,
        "<p>{state} · muster-agent {} since {} · server_id {} · <a href=\"/v1\">JSON</a> · \
         <a href=\"/metrics\">metrics</a></p>",
        now.version,
        moment(now.started),
        escape(server)
    );
    problems(&mut page, now);
    devices(&mut page, now);
    pods(&mut page, now);
    tables(&mut page, now);
    link(&mut page, now);
    topology(&mut page, now);
    page.push_str("</html>\n");
    page
}

fn problems(page: &mut String, now: &Snapshot) {
    page.push_str("<h2>Problems</h2>");
    if now.problems.is_empty() {
        page.push_str("<p class=\"none\">None.</p>");
        return;
    }
    let rows = now.problems.iter().map(|problem| {
        let since = jiff::Timestamp::from_second(problem.since).map(moment).unwrap_or_default();
        let times = match problem.count {
            1 => String::new(),
            count => format!("{count} times"),
        };
        vec![
            plain(problem.area),
            plain(&problem.subject),
            plain(&problem.message),
            plain(problem.reason),
            plain(since),
            plain(times),
        ]
    });
    table(page, &["Area", "Subject", "What is wrong", "Reason", "Since", ""], rows);
}

fn devices(page: &mut String, now: &Snapshot) {
    let inventory = &now.inventory;
    let _written = write!(page, "<h2>Devices ({})</h2>", inventory.devices.len());
    if inventory.devices.is_empty() {
        page.push_str("<p class=\"none\">None found.</p>");
        return;
    }
    let holders = |device: &muster_proto::device::Device| {
        let holds = |pod: &&muster_proto::pod::PodDevices| {
            pod.devices.iter().any(|held| held.vendor == device.vendor && held.id == device.id)
        };
        now.pods.iter().filter(holds).map(|pod| pod.pod.to_string()).collect::<Vec<_>>().join(", ")
    };
    let rows = inventory.devices.iter().map(|device| {
        let health = match &device.health {
            muster_proto::device::Health::Ok => mark("good", "ok"),
            muster_proto::device::Health::Degraded(why) => mark("odd", &format!("degraded: {why}")),
            muster_proto::device::Health::Faulty(why) => mark("bad", &format!("faulty: {why}")),
            muster_proto::device::Health::Unknown => mark("none", "unknown"),
        };
        let port = match device.port {
            PortState::Up => mark("good", "up"),
            PortState::Down => mark("bad", "down"),
            PortState::Unknown => String::new(),
        };
        vec![
            plain(device.end()),
            plain(&device.model),
            health,
            plain(device.ip.map(|ip| ip.to_string()).unwrap_or_default()),
            port,
            plain(device.pci.map(|pci| pci.to_string()).unwrap_or_default()),
            plain(device.numa.map(|numa| numa.to_string()).unwrap_or_default()),
            plain(holders(device)),
        ]
    });
    let heads = ["Device", "Model", "Health", "Address", "Port", "PCI", "NUMA", "Held by"];
    table(page, &heads, rows);
}

fn pods(page: &mut String, now: &Snapshot) {
    let _written = write!(page, "<h2>Pods with devices ({})</h2>", now.pods.len());
    if now.pods.is_empty() {
        page.push_str("<p class=\"none\">None.</p>");
        return;
    }
    let rows = now.pods.iter().map(|pod| {
        let ids: Vec<String> = pod.devices.iter().map(|held| held.id.to_string()).collect();
        vec![plain(&pod.pod), plain(&pod.pod.uid), plain(ids.join(" "))]
    });
    table(page, &["Pod", "Uid", "Devices"], rows);
}

fn tables(page: &mut String, now: &Snapshot) {
    let _written = write!(page, "<h2>Tables ({})</h2>", now.tables.len());
    if now.tables.is_empty() {
        page.push_str("<p class=\"none\">None delivered.</p>");
        return;
    }
    let rows = now.tables.iter().map(|table| {
        let digest = table.digest.map(|digest| digest.to_string()).unwrap_or_default();
        vec![
            plain(&table.place),
            plain(table.generation.map(|number| number.to_string()).unwrap_or_default()),
            plain(table.bytes.map(|bytes| format!("{bytes} bytes")).unwrap_or_default()),
            plain(digest.get(..12).unwrap_or_default()),
            table.last_error.as_deref().map(|error| mark("bad", error)).unwrap_or_default(),
        ]
    });
    table(page, &["Where", "Generation", "Size", "SHA-256", ""], rows);
}

fn link(page: &mut String, now: &Snapshot) {
    page.push_str("<h2>Coordinator</h2>");
    match &now.link {
        None => page
            .push_str("<p class=\"none\">Not configured: pods are annotated, no tables come.</p>"),
        Some(link) => {
            let class = if link.is_connected() { "good" } else { "bad" };
            let _written = write!(page, "<p>{}</p>", mark(class, &link.to_string()));
        }
    }
}

fn topology(page: &mut String, now: &Snapshot) {
    if now.inventory.links.is_empty() {
        return;
    }
    let _written =
        write!(page, "<h2>Topology</h2><pre>{}</pre>", escape(&matrix::matrix(&now.inventory)));
}

fn table(page: &mut String, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    page.push_str("<table><tr>");
    for head in heads {
        let _written = write!(page, "<th>{head}</th>");
    }
    page.push_str("</tr>");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _written = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// A cell with this text.
fn plain(text: impl Display) -> String {
    escape(&text.to_string())
}

/// A cell with this text, in the colour of its class.
fn mark(class: &str, text: &str) -> String {
    format!("<span class=\"{class}\">{}</span>", escape(text))
}

fn moment(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
