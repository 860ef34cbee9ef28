//! The nodes with what is left on them, and where a pod would go: no I/O, no time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_objects::meta;
use serde_json::{Value, json};

use super::super::json;
use super::fit;
use super::resources::{Amounts, CPU, MEMORY, Names};

/// All nodes and the pods on them.
pub struct Cluster {
    names: Names,
    /// By name, so that equal scores are decided by name.
    nodes: Vec<Node>,
    at: HashMap<String, usize>,
    /// Pods that take up room, by uid.
    placed: HashMap<String, Placed>,
    /// Which nodes admit a pod of a shape; forgotten when a node changes.
    admitted: HashMap<String, Arc<Admission>>,
}

struct Node {
    object: Arc<Value>,
    allocatable: Amounts,
    used: Amounts,
    /// For scores: a pod that asks for nothing still weighs something.
    weight: (i64, i64),
    pods: i64,
    most_pods: i64,
}

struct Placed {
    node: String,
    load: Load,
}

/// What a pod takes up.
#[derive(Debug, Clone)]
pub struct Load {
    requests: Amounts,
    weight: (i64, i64),
}

#[derive(Default)]
struct Admission {
    nodes: Vec<usize>,
    refused: BTreeMap<&'static str, usize>,
}

/// Why no node fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFit(pub String);

const LIGHT_CPU: i64 = 100;
const LIGHT_MEMORY: i64 = 200 * 1024 * 1024;
/// A cluster of few shapes keeps its answers; one of many must not grow without end.
const MOST_SHAPES: usize = 1000;

fn is_over(pod: &Value) -> bool {
    matches!(json::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

// === impl Cluster ===

impl Default for Cluster {
    fn default() -> Self {
        Self {
            names: Names::new(),
            nodes: Vec::new(),
            at: HashMap::new(),
            placed: HashMap::new(),
            admitted: HashMap::new(),
        }
    }
}

impl Cluster {
    /// Takes in a change of a node; whether a pod that did not fit may fit now.
    pub fn node_changed(
        &mut self,
        before: Option<&Arc<Value>>,
        after: Option<&Arc<Value>>,
    ) -> bool {
        let relevant = |node: &Arc<Value>| {
            let at = |pointer: &str| node.pointer(pointer).cloned();
            [at("/metadata/labels"), at("/spec"), at("/status/allocatable")]
        };
        if before.map(relevant) == after.map(relevant) {
            return false;
        }
        match after {
            Some(node) => {
                let name = meta::name(node).to_owned();
                let allocatable = self.names.read(node.pointer("/status/allocatable"));
                let most_pods = node
                    .pointer("/status/allocatable/pods")
                    .map_or(i64::MAX, |_| self.pods_of(&allocatable));
                match self.at.get(&name).and_then(|at| self.nodes.get_mut(*at)) {
                    Some(have) => {
                        have.object = node.clone();
                        have.allocatable = allocatable;
                        have.most_pods = most_pods;
                    }
                    None => self.add_node(name, node.clone(), allocatable, most_pods),
                }
            }
            None => {
                if let Some(gone) = before {
                    self.nodes.retain(|node| meta::name(&node.object) != meta::name(gone));
                    self.number();
                }
            }
        }
        self.admitted.clear();
        after.is_some()
    }

    fn pods_of(&mut self, amounts: &Amounts) -> i64 {
        let wanted = self.names.read(Some(&json!({"pods": "1"})));
        wanted.each().next().map_or(i64::MAX, |(number, _)| amounts.get(number))
    }

    fn add_node(&mut self, name: String, object: Arc<Value>, allocatable: Amounts, most_pods: i64) {
        let mut node = Node {
            object,
            allocatable,
            used: Amounts::default(),
            weight: (0, 0),
            pods: 0,
            most_pods,
        };
        // Pods may be known before their node.
        for placed in self.placed.values().filter(|placed| placed.node == name) {
            node.take(&placed.load);
        }
        let at = self.nodes.partition_point(|have| meta::name(&have.object) < name.as_str());
        self.nodes.insert(at, node);
        self.number();
    }

    fn number(&mut self) {
        let names = self.nodes.iter().enumerate();
        self.at = names.map(|(at, node)| (meta::name(&node.object).to_owned(), at)).collect();
    }

    /// Takes in a change of a pod; whether room became free.
    pub fn pod_changed(&mut self, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) -> bool {
        let Some(pod) = after.or(before) else { return false };
        let node = json::text(pod, "/spec/nodeName");
        let holds = after.is_some() && !node.is_empty() && !is_over(pod);
        if holds {
            if self.placed.get(meta::uid(pod)).is_none_or(|placed| placed.node != node) {
                let load = self.load(pod);
                self.place(meta::uid(pod), node, load);
            }
            return false;
        }
        // An assumed place stays until the binding is seen or has failed.
        if after.is_some() && !is_over(pod) {
            return false;
        }
        self.release(meta::uid(pod))
    }

    /// What a pod takes up.
    pub fn load(&mut self, pod: &Value) -> Load {
        let requests = self.names.requests(pod);
        let or = |amount: i64, light: i64| if amount == 0 { light } else { amount };
        let weight = (or(requests.get(CPU), LIGHT_CPU), or(requests.get(MEMORY), LIGHT_MEMORY));
        Load { requests, weight }
    }

    /// Puts a pod on a node.
    pub fn place(&mut self, uid: &str, node: &str, load: Load) {
        self.release(uid);
        if let Some(have) = self.at.get(node).and_then(|at| self.nodes.get_mut(*at)) {
            have.take(&load);
        }
        self.placed.insert(uid.to_owned(), Placed { node: node.to_owned(), load });
    }

    /// Takes a pod off its node.
    pub fn release(&mut self, uid: &str) -> bool {
        let Some(placed) = self.placed.remove(uid) else { return false };
        if let Some(have) = self.at.get(&placed.node).and_then(|at| self.nodes.get_mut(*at)) {
            have.give_back(&placed.load);
        }
        true
    }

    /// The best node for a pod: the one with the most left; of equals the first by name.
    pub fn choose(&mut self, pod: &Value, load: &Load) -> Result<String, NoFit> {
        let admission = self.admission(pod);
        let mut best: Option<(i64, usize)> = None;
        for at in &admission.nodes {
            let Some(node) = self.nodes.get(*at) else { continue };
            if node.has_room(load) {
                let score = node.score(load);
                if best.is_none_or(|(highest, _)| score > highest) {
                    best = Some((score, *at));
                }
            }
        }
        match best.and_then(|(_, at)| self.nodes.get(at)) {
            Some(node) => Ok(meta::name(&node.object).to_owned()),
            None => Err(self.explain(&admission, load)),
        }
    }

    fn admission(&mut self, pod: &Value) -> Arc<Admission> {
        let shape = json!([
            pod.pointer("/spec/nodeSelector"),
            pod.pointer("/spec/affinity/nodeAffinity"),
            pod.pointer("/spec/tolerations"),
        ])
        .to_string();
        if let Some(known) = self.admitted.get(&shape) {
            return known.clone();
        }
        let mut admission = Admission::default();
        for (at, node) in self.nodes.iter().enumerate() {
            match fit::refusal(pod, &node.object) {
                None => admission.nodes.push(at),
                Some(reason) => *admission.refused.entry(reason).or_default() += 1,
            }
        }
        if self.admitted.len() >= MOST_SHAPES {
            self.admitted.clear();
        }
        let admission = Arc::new(admission);
        self.admitted.insert(shape, admission.clone());
        admission
    }

    /// The message of the scheduler: reasons with counts, in alphabetical order.
    fn explain(&self, admission: &Admission, load: &Load) -> NoFit {
        let all = self.nodes.len();
        if all == 0 {
            return NoFit("no nodes available to schedule pods".to_owned());
        }
        let mut reasons: BTreeMap<String, usize> =
            admission.refused.iter().map(|(reason, n)| ((*reason).to_owned(), *n)).collect();
        let mut full = 0;
        for node in admission.nodes.iter().filter_map(|at| self.nodes.get(*at)) {
            full += 1;
            for reason in node.shortages(load, &self.names) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let listed = |mut texts: Vec<String>| {
            texts.sort();
            texts.join(", ")
        };
        let reasons = reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let mut preemption = Vec::new();
        if full > 0 {
            preemption.push(format!("{full} No preemption victims found for incoming pod"));
        }
        if all > full {
            preemption.push(format!("{} Preemption is not helpful for scheduling", all - full));
        }
        NoFit(format!(
            "0/{all} nodes are available: {}. preemption: 0/{all} nodes are available: {}.",
            listed(reasons),
            listed(preemption)
        ))
    }
}

// === impl Node ===

impl Node {
    fn take(&mut self, load: &Load) {
        self.used.add(&load.requests);
        self.weight = (self.weight.0 + load.weight.0, self.weight.1 + load.weight.1);
        self.pods += 1;
    }

    fn give_back(&mut self, load: &Load) {
        self.used.subtract(&load.requests);
        self.weight = (self.weight.0 - load.weight.0, self.weight.1 - load.weight.1);
        self.pods -= 1;
    }

    fn lacks(&self, number: usize, amount: i64) -> bool {
        amount > self.allocatable.get(number) - self.used.get(number)
    }

    fn has_room(&self, load: &Load) -> bool {
        self.pods < self.most_pods
            && load.requests.each().all(|(number, amount)| !self.lacks(number, amount))
    }

    fn shortages(&self, load: &Load, names: &Names) -> Vec<String> {
        let mut found = Vec::new();
        if self.pods >= self.most_pods {
            found.push("Too many pods".to_owned());
        }
        for (number, amount) in load.requests.each() {
            if self.lacks(number, amount) {
                found.push(format!("Insufficient {}", names.name(number)));
            }
        }
        found
    }

    /// How much of cpu and memory would be left, in millionths.
    fn score(&self, load: &Load) -> i64 {
        let left = |number: usize, used: i64| {
            let all = self.allocatable.get(number);
            if all <= 0 || used > all {
                return 0;
            }
            i64::try_from(i128::from(all - used) * 1_000_000 / i128::from(all)).unwrap_or(0)
        };
        let cpu = left(CPU, self.weight.0 + load.weight.0);
        let memory = left(MEMORY, self.weight.1 + load.weight.1);
        (cpu + memory) / 2
    }
}

#[cfg(test)]
mod tests;
