//! What a world shall be made of.

use std::path::Path;
use std::time::Duration;

use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::{Containers, KubeletOptions, NodeSpec};
use serde_json::json;

use super::coordinators::{AGENT_IMAGE, BUSYBOX, Choices};
use super::gate::{Gate, HOLD};
use super::waiter;

/// Label and taint of a node in a real cluster: which world it belongs to.
pub(super) const WORLD: &str = "sandbox.muster.dev/world";

/// Settings of a world to come.
#[derive(Debug, Default)]
pub struct Plan {
    nodes: Vec<(Profile, u32, Files)>,
    containers: Containers,
    processes: bool,
    pub(super) strict: bool,
    pub(super) seed: u64,
    pub(super) port: u16,
    pub(super) gate: Gate,
    pub(super) agents: bool,
    pub(super) coordinators: usize,
    pub(super) choices: Choices,
    pub(super) alone: bool,
}

/// What a node has on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    All,
    /// Volumes, checkpoint and socket.
    Lean,
    None,
}

// === impl Plan ===

impl Plan {
    /// So many nodes of eight Ascend 910B each.
    pub fn nodes(self, count: u32) -> Self {
        self.nodes_of(Profile::Ascend910b8, count)
    }

    /// So many nodes of a profile, with all their files and their socket.
    pub fn nodes_of(mut self, profile: Profile, count: u32) -> Self {
        self.nodes.push((profile, count, Files::All));
        self
    }

    /// So many nodes of a profile with volumes, checkpoint and socket, and without the files of their hardware: who wants
    /// agents there lays out what they shall find, and starts them.
    pub fn lean_nodes_of(mut self, profile: Profile, count: u32) -> Self {
        self.nodes.push((profile, count, Files::Lean));
        self
    }

    /// So many nodes of a profile without files or socket, for very many.
    pub fn bare_nodes_of(mut self, profile: Profile, count: u32) -> Self {
        self.nodes.push((profile, count, Files::None));
        self
    }

    /// Containers that are closures, beside those of the image [`HOLD`].
    pub fn containers(mut self, containers: Containers) -> Self {
        self.containers = containers;
        self
    }

    /// Lets pods that are annotated so run their containers as processes of this machine.
    pub fn processes(mut self) -> Self {
        self.processes = true;
        self
    }

    /// Demands credentials and enforces RBAC, as real clusters always do.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The seed of injected faults.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The port of the sandbox; 0 takes any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Runs a coordinator, and a real agent on every node that has all files.
    pub fn agents(mut self) -> Self {
        self.agents = true;
        self.coordinators = self.coordinators.max(1);
        self
    }

    /// Runs so many coordinators; one leads.
    pub fn coordinators(mut self, count: usize) -> Self {
        self.coordinators = count;
        self
    }

    /// With other settings of the coordinators.
    pub fn choices(mut self, choices: Choices) -> Self {
        self.choices = choices;
        self
    }

    /// Without the controllers that a cluster brings along: nobody writes but who is tested, and who tests. The kinds are there.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    pub(super) fn kubelet_options(&self) -> KubeletOptions {
        let gate = self.gate.clone();
        let containers = self.containers.clone().image(HOLD, move |context| {
            let gate = gate.clone();
            async move { gate.pass(context.stop).await }
        });
        let containers = containers.image(AGENT_IMAGE, waiter::agent).image(BUSYBOX, waiter::shell);
        KubeletOptions {
            containers,
            allow_exec: self.processes,
            sync: Duration::ZERO,
            ..KubeletOptions::default()
        }
    }

    /// The nodes; in a real cluster they carry the mark of this world.
    pub(super) fn specs(&self, folder: &Path, mark: Option<&str>) -> Vec<NodeSpec> {
        let mut specs: Vec<NodeSpec> = Vec::new();
        for (profile, count, files) in &self.nodes {
            let before = specs.iter().filter(|spec| spec.profile == *profile).count();
            for number in (before..).take(*count as usize) {
                let plain = format!("{profile}-{number}");
                let name = mark.map_or(plain.clone(), |mark| format!("{mark}-{plain}"));
                let index = specs.len() as u32;
                let mut spec = match files {
                    // Short: the path of a socket has at most 107 bytes.
                    Files::All => NodeSpec::new(&name, *profile, index, folder.join(&plain)),
                    Files::Lean => NodeSpec::lean(&name, *profile, index, folder.join(&plain)),
                    Files::None => NodeSpec::bare(&name, *profile, index),
                };
                if let Some(mark) = mark {
                    spec.labels.insert(WORLD.to_owned(), mark.to_owned());
                    spec.taints =
                        vec![json!({ "key": WORLD, "value": mark, "effect": "NoSchedule" })];
                }
                specs.push(spec);
            }
        }
        specs
    }
}
