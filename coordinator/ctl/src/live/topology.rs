//! `topology`: domains, what is free there, and which gang fits.

use std::collections::BTreeMap;
use std::io::Write;

use muster_scheduler::framework::Registry;
use muster_scheduler::input::{Input, Level, Topology as TopologyObject};
use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{Domain, NodeId, Topology};
use serde::Serialize;

use super::devices::{self, Devices};
use super::for_programs;
use super::kinds::Scope;
use super::table::{Table, number};
use super::world::World;
use crate::args::{Show, TopologyArgs};
use crate::names::SUPER_POD;
use crate::{Failure, note};

/// What the tree of super-pods is called.
const SUPER_PODS: &str = "super-pods";
/// What the whole is called where nobody has drawn a topology.
const CLUSTER: &str = "cluster";

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopologyTree {
    pub(crate) name: String,
    /// Labels, the coarsest first.
    pub(crate) levels: Vec<String>,
    /// Each after the one that it is in; the first is all of it.
    pub(crate) domains: Vec<DomainRow>,
    /// Nodes that lack a label, and so are in no domain.
    pub(crate) outside: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DomainRow {
    /// The values of its levels, joined by dots; the whole has none.
    pub(crate) id: String,
    /// The value of its own level.
    pub(crate) name: String,
    /// Its level's label.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) level: String,
    pub(crate) depth: usize,
    pub(crate) nodes: usize,
    /// Nodes that take pods.
    pub(crate) ready: usize,
    pub(crate) devices: f64,
    pub(crate) free: f64,
    /// The largest gang of pods of one device each that fits now.
    pub(crate) largest_gang: u64,
    /// Of which kind its devices are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) gang_resource: String,
    /// Nodes of the finest domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) members: Vec<Member>,
}

/// A node of a domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) ready: bool,
    pub(crate) devices: Vec<Devices>,
}

pub(crate) fn topology(args: &TopologyArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let world = World::of(&args.engine, &args.cluster, Scope::Room)?;
    let mut trees = trees(world);
    if let Some(name) = &args.name {
        let known: Vec<String> = trees.iter().map(|tree| tree.name.clone()).collect();
        trees.retain(|tree| tree.name == *name);
        if trees.is_empty() {
            let known = known.join(", ");
            return Err(Failure::Usage(format!("there is no topology {name}: there is {known}")));
        }
    }
    for tree in trees.iter().filter(|tree| !tree.outside.is_empty()) {
        note(format_args!(
            "topology {}: {} nodes are in no domain, {} is the first: label it with {}",
            tree.name,
            tree.outside.len(),
            tree.outside.first().map_or("", String::as_str),
            tree.levels.join(", ")
        ));
    }
    if for_programs(&trees, args.output, out)? {
        return Ok(false);
    }
    for (at, tree) in trees.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        print(tree, args.output == Show::Wide, out)?;
    }
    Ok(false)
}

/// All topologies, that of super-pods among them; the cluster as a whole if there are none.
pub(crate) fn trees(mut world: World) -> Vec<TopologyTree> {
    draw(&mut world);
    let snapshot = world.snapshot();
    let session = Session::open(&snapshot, &world.config, &Registry::default());
    let nodes: BTreeMap<NodeId, Vec<Devices>> =
        snapshot.nodes.ids().map(|id| (id, devices::of(&world, &session, id))).collect();
    snapshot.topologies.iter().map(|topology| tree(&session, topology, &nodes)).collect()
}

/// Adds the topologies that nobody has written down.
fn draw(world: &mut World) {
    let Input { topologies, inventories, nodes, .. } = &mut world.input;
    let named = topologies
        .iter()
        .flat_map(|known| &known.spec.levels)
        .any(|level| level.node_label == SUPER_POD);
    let placed = inventories.iter().any(|inventory| inventory.super_pod.is_some())
        || nodes.iter().any(|node| node.metadata.labels.get(SUPER_POD).is_some());
    if placed && !named {
        topologies.push(drawn(SUPER_PODS, Some(SUPER_POD)));
    }
    if topologies.is_empty() {
        topologies.push(drawn(CLUSTER, None));
    }
}

fn drawn(name: &str, label: Option<&str>) -> TopologyObject {
    let mut topology = TopologyObject::default();
    name.clone_into(&mut topology.metadata.name);
    let level = |label: &str| Level { node_label: label.to_owned(), alias: String::new() };
    topology.spec.levels.extend(label.map(level));
    topology
}

fn tree(
    session: &Session<'_>,
    topology: &Topology,
    nodes: &BTreeMap<NodeId, Vec<Devices>>,
) -> TopologyTree {
    let snapshot = session.snapshot;
    let mut domains = Vec::new();
    let mut next = vec![0];
    while let Some(at) = next.pop() {
        let Some(domain) = topology.domains.get(at) else { continue };
        domains.push(row(session, topology, domain, nodes));
        let mut below = domain.children.clone();
        below.sort_by_key(|child| topology.domains.get(*child).map(|domain| &domain.id));
        next.extend(below.into_iter().rev());
    }
    let inside = topology.domains.first().map(|root| root.nodes.as_slice()).unwrap_or_default();
    let outside = snapshot.nodes.entries().filter(|(id, _)| inside.binary_search(id).is_err());
    TopologyTree {
        name: topology.name.clone(),
        levels: topology.levels.clone(),
        domains,
        outside: outside.map(|(_, node)| node.name.clone()).collect(),
    }
}

fn row(
    session: &Session<'_>,
    topology: &Topology,
    domain: &Domain,
    nodes: &BTreeMap<NodeId, Vec<Devices>>,
) -> DomainRow {
    let snapshot = session.snapshot;
    let has = |id: &NodeId| nodes.get(id).map(Vec::as_slice).unwrap_or_default();
    let all = || domain.nodes.iter().flat_map(has);
    let (largest_gang, gang_resource) = largest_gang(all());
    let above = domain.parent.and_then(|parent| topology.domains.get(parent));
    let name = match above.filter(|above| above.depth > 0) {
        Some(above) => domain.id.get(above.id.len() + 1..).unwrap_or(&domain.id).to_owned(),
        None if domain.depth == 0 => topology.name.clone(),
        None => domain.id.clone(),
    };
    let member = |id: &NodeId| Member {
        name: snapshot.nodes[*id].name.clone(),
        ready: snapshot.nodes[*id].ready,
        devices: has(id).to_vec(),
    };
    let finest = domain.depth == topology.levels.len();
    DomainRow {
        id: domain.id.clone(),
        name,
        level: domain
            .depth
            .checked_sub(1)
            .and_then(|at| topology.levels.get(at))
            .cloned()
            .unwrap_or_default(),
        depth: domain.depth,
        nodes: domain.nodes.len(),
        ready: domain.nodes.iter().filter(|id| snapshot.nodes[**id].ready).count(),
        devices: all().map(|devices| devices.all).sum(),
        free: all().map(|devices| devices.free).sum(),
        largest_gang,
        gang_resource,
        members: if finest { domain.nodes.iter().map(member).collect() } else { Vec::new() },
    }
}

/// How many pods of one device each fit at once, all with devices of one kind: the kind that has room for most.
pub(crate) fn largest_gang<'a>(devices: impl Iterator<Item = &'a Devices>) -> (u64, String) {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for devices in devices {
        *kinds.entry(&devices.resource).or_default() += devices.fitting;
    }
    let best = kinds.into_iter().rev().max_by_key(|(_, fitting)| *fitting);
    best.map_or((0, String::new()), |(resource, fitting)| (fitting, resource.to_owned()))
}

fn print(tree: &TopologyTree, wide: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let head = ["DOMAIN", "LEVEL", ">NODES", ">READY", ">DEVICES", ">FREE", ">GANG", "OF"];
    let mut table = Table::new(head);
    for domain in &tree.domains {
        let indent = "  ".repeat(domain.depth);
        table.push([
            format!("{indent}{}", domain.name),
            domain.level.clone(),
            domain.nodes.to_string(),
            domain.ready.to_string(),
            number(domain.devices),
            number(domain.free),
            domain.largest_gang.to_string(),
            domain.gang_resource.clone(),
        ]);
        for member in domain.members.iter().filter(|_| wide) {
            let (gang, of) = largest_gang(member.devices.iter());
            let sum = |amount: fn(&Devices) -> f64| number(member.devices.iter().map(amount).sum());
            table.push([
                format!("{indent}  {}", member.name),
                "(node)".to_owned(),
                String::new(),
                u8::from(member.ready).to_string(),
                sum(|devices| devices.all),
                sum(|devices| devices.free),
                gang.to_string(),
                of,
            ]);
        }
    }
    table.print(!wide, out)
}
