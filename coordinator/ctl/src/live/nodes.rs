//! `nodes`: devices, free and faulty ones, taints, state.

use std::io::Write;

use muster_scheduler::framework::Registry;
use muster_scheduler::input::Taint;
use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{CPU, MEMORY, NodeId, PODS, at};
use serde::Serialize;

use super::devices::{self, Devices};
use super::for_programs;
use super::kinds::Scope;
use super::table::{Table, number};
use super::world::World;
use crate::args::{NodesArgs, Show};
use crate::{Failure, note};

const GIB: f64 = 1_073_741_824.0;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeRow {
    name: String,
    /// Why it takes no pods; `ready` if it does.
    state: String,
    devices: Vec<Devices>,
    taints: Vec<String>,
    cpus: Amount,
    memory_gib: Amount,
    pods: Amount,
}

/// How much there is, and how much of it is free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Amount {
    all: f64,
    free: f64,
}

pub(crate) fn nodes(args: &NodesArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let world = World::of(&args.engine, &args.cluster, Scope::Room)?;
    let mut rows = rows(&world);
    for name in &args.names {
        if !rows.iter().any(|row| row.name == *name) {
            let message = format!("there is no node {name}: `musterctl nodes` lists all");
            return Err(Failure::Usage(message));
        }
    }
    rows.retain(|row| args.names.is_empty() || args.names.contains(&row.name));
    if rows.is_empty() {
        note("there are no nodes");
    }
    if for_programs(&rows, args.output, out)? {
        return Ok(false);
    }
    print(&rows, args.output == Show::Wide, out)?;
    Ok(false)
}

/// Every node, by name.
pub(crate) fn rows(world: &World) -> Vec<NodeRow> {
    let snapshot = world.snapshot();
    let session = Session::open(&snapshot, &world.config, &Registry::default());
    snapshot.nodes.ids().map(|id| row(world, &session, id)).collect()
}

fn row(world: &World, session: &Session<'_>, id: NodeId) -> NodeRow {
    let (node, state) = (&session.snapshot.nodes[id], &session.state.nodes[id]);
    let amount = |dimension: usize, unit: f64| Amount {
        all: at(&node.allocatable, dimension) / unit,
        free: at(&state.idle, dimension) / unit,
    };
    NodeRow {
        name: node.name.clone(),
        state: match node.conditions.as_slice() {
            [] => "ready".to_owned(),
            why => why.join(", "),
        },
        devices: devices::of(world, session, id),
        taints: node.taints.iter().map(taint).collect(),
        cpus: amount(CPU, 1000.0),
        memory_gib: amount(MEMORY, GIB),
        pods: amount(PODS, 1.0),
    }
}

fn taint(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{:?}", taint.key, taint.effect)
}

fn print(rows: &[NodeRow], wide: bool, out: &mut dyn Write) -> std::io::Result<()> {
    if wide {
        let head = [
            "NODE", "DEVICES", ">ALL", ">FREE", ">FAULTY", "STATE", "CPUS", "GIB", "PODS", "TAINTS",
        ];
        let mut table = Table::new(head);
        for row in rows {
            let of = |amount: Amount| format!("{}/{}", number(amount.free), number(amount.all));
            let ends = [of(row.cpus), of(row.memory_gib), of(row.pods), words(&row.taints)];
            for (name, [kind, all, free, faulty], state, first) in lines(row) {
                let [cpus, memory, pods, taints] =
                    if first { ends.clone() } else { Default::default() };
                table.push([name, kind, all, free, faulty, state, cpus, memory, pods, taints]);
            }
        }
        return table.print(false, out);
    }
    let head = ["NODE", "DEVICES", ">ALL", ">FREE", ">FAULTY", "STATE", "TAINTS"];
    let mut table = Table::new(head);
    for row in rows {
        for (name, [kind, all, free, faulty], state, first) in lines(row) {
            let taints = if first { words(&row.taints) } else { String::new() };
            table.push([name, kind, all, free, faulty, state, taints]);
        }
    }
    table.print(true, out)
}

/// A line for each kind of device, what is of the node in the first; one if there are no devices.
fn lines(row: &NodeRow) -> Vec<(String, [String; 4], String, bool)> {
    let mut lines: Vec<_> = row
        .devices
        .iter()
        .map(|devices| {
            let Devices { resource, all, free, faulty, .. } = devices;
            let cells = [resource.clone(), number(*all), number(*free), number(*faulty)];
            (String::new(), cells, String::new(), false)
        })
        .collect();
    if lines.is_empty() {
        let none = ["-", "0", "0", "0"].map(str::to_owned);
        lines.push((String::new(), none, String::new(), false));
    }
    if let Some((name, _, state, first)) = lines.first_mut() {
        name.clone_from(&row.name);
        state.clone_from(&row.state);
        *first = true;
    }
    lines
}

fn words(words: &[String]) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}
