//! An API server, its watch and its faults, small enough to be run thousands of times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{Node, Pod, PodGroup};
use muster_scheduler_state::object::{Name, name};
use muster_scheduler_state::reservation::{Annotate, Make, Release};
use muster_scheduler_state::{Bind, Cluster, Evict, Kind, Object, Outcome, Settings};
use serde_json::json;

use super::queues::{self, PRIORITIES, Rule};
use super::shared::{Part, Reserved};

const DEVICE: &str = "nvidia.com/gpu";
const DEVICES: u32 = 4;
const NODES: usize = 5;
/// Rounds of ten seconds in which a run calms down.
const LEAST_ROUNDS: usize = 40;
const MOST_ROUNDS: usize = 400;

/// A pod as the API server knows it.
#[derive(Clone, Debug)]
pub struct Truth {
    pub uid: String,
    pub group: String,
    pub devices: u32,
    /// Which part of devices, if it does not ask for whole ones.
    pub part: Option<Part>,
    pub node: Option<String>,
    pub leaving: bool,
}

/// A group as the API server knows it.
#[derive(Clone, Copy, Debug)]
struct Group {
    least: u32,
    queue: &'static str,
    priority: &'static str,
}

pub enum Order {
    Bind(Bind),
    Evict(Evict),
    Make(Make),
    Annotate(Annotate),
    Release(Release),
    Clear(Release),
}

pub enum Heard {
    Put(Box<Object>),
    Gone(Kind, Name),
}

/// All of it.
pub struct World {
    random: u64,
    pub now: Timestamp,
    pub pods: BTreeMap<String, Truth>,
    groups: BTreeMap<String, Group>,
    pub rules: &'static [Rule],
    pub nodes: BTreeSet<String>,
    pub cluster: Cluster,
    pub heard: VecDeque<Heard>,
    pub orders: Vec<Order>,
    pub made: usize,
    pub reserved: BTreeMap<String, Reserved>,
    pub reservations: usize,
    pub bound: usize,
    pub evicted: usize,
    pub killed: usize,
    pub failed: usize,
}

impl World {
    pub fn new(seed: u64, rules: &'static [Rule]) -> Self {
        let mut world = Self {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            rules,
            nodes: (0..NODES).map(|number| format!("n{number}")).collect(),
            cluster: Cluster::new(Settings::default()),
            heard: VecDeque::new(),
            orders: Vec::new(),
            made: 0,
            reserved: BTreeMap::new(),
            reservations: 0,
            bound: 0,
            evicted: 0,
            killed: 0,
            failed: 0,
        };
        world.begin();
        // Queues with limits are full from the beginning.
        if rules.iter().any(Rule::is_limited) {
            (0..12).for_each(|_| world.add_gang());
        }
        world
    }

    /// One thing happens.
    pub fn step(&mut self) {
        self.pass(SignedDuration::from_millis(50));
        match self.dice(29) {
            0..=2 => self.add_gang(),
            3..=8 => self.hear(),
            9..=13 => self.cycle(),
            14..=18 => self.do_order(true),
            19 => self.delete_a_pod(),
            20 => self.let_go(),
            21 => self.change_nodes(),
            22 => self.begin(),
            23..=25 => self.agents_tell(),
            26 if self.dice(8) == 0 => self.steal(),
            27 if self.dice(2) == 0 => self.pass(SignedDuration::from_mins(-3)),
            _ => self.pass(SignedDuration::from_secs(7)),
        }
        self.share();
    }

    /// Nothing fails any more, everything is heard, and time passes until there is nothing left to do. That can take long, since
    /// a clock that was set back has to come to what waits for it.
    pub fn calm(&mut self, when: &str) {
        for round in 0..MOST_ROUNDS {
            while !self.orders.is_empty() {
                self.do_order(false);
            }
            self.let_go();
            while !self.heard.is_empty() {
                self.hear();
            }
            self.agents_tell();
            self.pass(SignedDuration::from_secs(10));
            self.cycle();
            self.share();
            self.check(when);
            let is_quiet = self.orders.is_empty() && self.heard.is_empty();
            if round >= LEAST_ROUNDS && is_quiet && self.cluster.next().is_none() {
                return;
            }
        }
        panic!("{when}: after {MOST_ROUNDS} rounds there is still something to do");
    }

    /// No device is given twice, and nobody is where no node is.
    pub fn check(&self, when: &str) {
        let mut used = self.held();
        for pod in self.pods.values() {
            if let Some(node) = &pod.node {
                *used.entry(node).or_default() += pod.devices;
            }
        }
        for (node, used) in used {
            assert!(used <= DEVICES, "{when}: {used} devices of {node} are given");
        }
        self.check_parts(when);
        self.check_limits(when);
    }

    /// The queue of a group.
    pub fn queue_of(&self, group: &str) -> &'static str {
        self.groups.get(group).map_or("", |group| group.queue)
    }

    /// Every gang has what it needs, or nothing.
    pub fn check_gangs(&self, when: &str) {
        for (group, Group { least, .. }) in &self.groups {
            let of = |pod: &&Truth| pod.group == *group && pod.node.is_some() && !pod.leaving;
            let placed = self.pods.values().filter(of).count();
            let well = placed == 0 || placed >= *least as usize;
            assert!(well, "{when}: {placed} pods of {group} have nodes, and it needs {least}");
        }
    }

    pub fn dice(&mut self, sides: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % sides
    }

    fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.saturating_add(time).unwrap();
    }

    /// A new coordinator: what the last one had sent is lost, or was done; it lists everything.
    fn begin(&mut self) {
        while !self.orders.is_empty() {
            if self.dice(2) == 0 {
                self.orders.pop();
            } else {
                self.do_order(true);
            }
        }
        self.killed += 1;
        // Another machine's clock: hours before or after the last one's.
        let hours = self.dice(5) as i64 - 2;
        self.pass(SignedDuration::from_hours(hours));
        self.heard.clear();
        self.cluster = Cluster::new(Settings::default());
        for object in queues::objects(self.rules) {
            self.cluster.put(object);
        }
        for node in self.nodes.clone() {
            self.cluster.put(node_object(&node));
        }
        for (name, group) in &self.groups {
            self.cluster.put(group_object(name, group));
        }
        for (pod, truth) in &self.pods {
            self.cluster.put(pod_object(pod, truth, self.now));
        }
        for reserved in self.all_reserved() {
            self.cluster.put(reserved);
        }
    }

    fn add_gang(&mut self) {
        self.made += 1;
        let group = format!("g{}", self.made);
        // Where limits are looked at, many small ones: they take from one another often.
        let limited = self.rules.iter().any(Rule::is_limited);
        let least = self.dice(if limited { 2 } else { 3 }) as u32 + 1;
        let leaves = queues::leaves(self.rules);
        let queue = leaves[self.dice(leaves.len() as u64) as usize];
        let priority = PRIORITIES[self.dice(PRIORITIES.len() as u64) as usize].0;
        let spec = Group { least, queue, priority };
        self.groups.insert(group.clone(), spec);
        self.heard.push_back(Heard::Put(Box::new(group_object(&group, &spec))));
        let part = (self.dice(if limited { 5 } else { 2 }) == 0).then(|| Part {
            percent: [25, 40, 50, 60][self.dice(4) as usize],
            count: [1, 1, 1, 2][self.dice(4) as usize],
            ..Part::default()
        });
        let devices = if part.is_some() { 0 } else { 1 << self.dice(if limited { 2 } else { 3 }) };
        for number in 0..least + self.dice(2) as u32 {
            let name = format!("{group}-{number}");
            let truth = Truth {
                uid: format!("{name}-uid"),
                group: group.clone(),
                devices,
                part: part.clone(),
                node: None,
                leaving: false,
            };
            self.tell(&name, &truth);
            self.pods.insert(name, truth);
        }
    }

    fn hear(&mut self) {
        for _ in 0..=self.dice(6) {
            match self.heard.pop_front() {
                Some(Heard::Put(object)) => self.cluster.put(*object),
                Some(Heard::Gone(kind, name)) => self.cluster.remove(kind, &name),
                None => return,
            }
        }
    }

    fn cycle(&mut self) {
        let cycle = self.cluster.cycle(self.now);
        self.orders.extend(cycle.binds.into_iter().map(Order::Bind));
        self.orders.extend(self.cluster.due(self.now).into_iter().map(Order::Bind));
        self.orders.extend(cycle.evictions.into_iter().map(Order::Evict));
    }

    /// An order reaches the API server, in any sequence; its answer may be lost.
    fn do_order(&mut self, fails: bool) {
        if self.orders.is_empty() {
            return;
        }
        let at = self.dice(self.orders.len() as u64) as usize;
        let order = self.orders.swap_remove(at);
        let fault = if fails { self.dice(8) } else { 7 };
        let done = match &order {
            Order::Bind(bind) if fault == 0 && bind.share.is_some() => self.label(bind),
            _ if fault == 0 => Outcome::Failed("429".to_owned()),
            Order::Bind(bind) => self.bind(bind),
            Order::Evict(evict) => self.evict(evict),
            Order::Make(make) => self.make(make),
            Order::Annotate(mark) => self.mark(mark),
            Order::Release(release) => self.release(release),
            Order::Clear(release) => self.clear(release),
        };
        // It may have been done though nobody hears of it.
        let answer = if fault == 1 { Outcome::Unsure("no answer".to_owned()) } else { done };
        self.failed += usize::from(matches!(answer, Outcome::Failed(_) | Outcome::Unsure(_)));
        match order {
            Order::Bind(bind) => {
                self.cluster.binding_result(&bind.pod, &bind.uid, answer, self.now);
            }
            Order::Evict(evict) => {
                self.cluster.evicted(&evict.pod, &evict.uid, &answer, self.now);
            }
            Order::Make(make) => self.cluster.made(&make.spot, &answer, self.now),
            Order::Annotate(mark) => self.cluster.marked(&mark.pod, &mark.uid, &answer, self.now),
            Order::Release(one) => self.cluster.released(&one.pod, &one.uid, &answer, self.now),
            Order::Clear(one) => self.cluster.cleared(&one.pod, &one.uid, &answer, self.now),
        }
    }

    fn bind(&mut self, bind: &Bind) -> Outcome {
        let known = self.pods.get_mut(&*bind.pod.1).filter(|pod| pod.uid == bind.uid);
        let Some(pod) = known.filter(|pod| pod.node.is_none() && !pod.leaving) else {
            return Outcome::Lost("404 or 409".to_owned());
        };
        pod.node = Some(bind.node.clone());
        if let Some(part) = &mut pod.part {
            Self::told(bind, part);
        }
        self.bound += 1;
        let truth = pod.clone();
        self.tell(&bind.pod.1, &truth);
        Outcome::Done
    }

    fn evict(&mut self, evict: &Evict) -> Outcome {
        let known = self.pods.get_mut(&*evict.pod.1).filter(|pod| pod.uid == evict.uid);
        let Some(pod) = known else { return Outcome::Lost("404".to_owned()) };
        pod.leaving = true;
        self.evicted += 1;
        let truth = pod.clone();
        self.tell(&evict.pod.1, &truth);
        Outcome::Done
    }

    /// Somebody deletes a pod.
    fn delete_a_pod(&mut self) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let at = self.dice(names.len() as u64) as usize;
        if let Some(pod) = self.pods.get_mut(&names[at]) {
            pod.leaving = true;
            let truth = pod.clone();
            self.tell(&names[at], &truth);
        }
    }

    /// Pods that leave are gone.
    fn let_go(&mut self) {
        self.let_reservations_go();
        // An API server binds pods to nodes that are not there; a controller takes them away.
        let lost = |pod: &Truth| pod.node.as_ref().is_some_and(|node| !self.nodes.contains(node));
        let gone = self.pods.iter().filter(|(_, pod)| pod.leaving || lost(pod));
        let gone: Vec<String> = gone.map(|(pod, _)| pod.clone()).collect();
        for pod in gone {
            self.pods.remove(&pod);
            self.heard.push_back(Heard::Gone(Kind::Pod, name("team", &pod)));
        }
    }

    /// A node vanishes with its pods, or comes back.
    fn change_nodes(&mut self) {
        let node = format!("n{}", self.dice(NODES as u64));
        if self.nodes.remove(&node) {
            self.heard.push_back(Heard::Gone(Kind::Node, name("", &node)));
            let there: Vec<String> = self
                .pods
                .iter()
                .filter(|(_, pod)| pod.node.as_deref() == Some(&node))
                .map(|(pod, _)| pod.clone())
                .collect();
            for pod in there {
                self.pods.remove(&pod);
                self.heard.push_back(Heard::Gone(Kind::Pod, name("team", &pod)));
            }
            self.let_reservations_go();
        } else {
            self.let_go();
            self.heard.push_back(Heard::Put(Box::new(node_object(&node))));
            self.nodes.insert(node);
        }
    }

    pub fn tell(&mut self, pod: &str, truth: &Truth) {
        self.heard.push_back(Heard::Put(Box::new(pod_object(pod, truth, self.now))));
    }
}

fn node_object(node: &str) -> Object {
    let node = json!({"metadata": {"name": node}, "status": {
        "allocatable": {DEVICE: DEVICES.to_string(), "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    Object::Node(serde_json::from_value::<Node>(node).unwrap())
}

fn group_object(name: &str, group: &Group) -> Object {
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"minMember": group.least, "queue": group.queue, "priorityClassName": group.priority}});
    Object::PodGroup(Box::new(serde_json::from_value::<PodGroup>(group).unwrap()))
}

fn pod_object(pod: &str, truth: &Truth, now: Timestamp) -> Object {
    let devices = truth.devices.to_string();
    let mut pod = json!({"metadata": {"name": pod, "namespace": "team", "uid": truth.uid,
            "annotations": {"pod-group-name": truth.group}},
        "spec": {"schedulerName": "muster-scheduler", "containers": [
            {"name": "c", "resources": {"requests": {DEVICE: devices}, "limits": {DEVICE: devices}}}]},
        "status": {"phase": "Pending"}});
    if let Some(part) = &truth.part {
        pod["spec"]["containers"][0]["resources"] = json!({});
        let annotations = &mut pod["metadata"]["annotations"];
        annotations["gpu-fraction"] = format!("0.{}", part.percent).into();
        annotations["gpu-fraction-num-devices"] = part.count.to_string().into();
        annotations["runai/shared-gpu-configmap"] = "map".into();
        for group in &part.groups {
            pod["metadata"]["labels"][format!("runai-gpu-group/{group}")] = group.as_str().into();
        }
    }
    if let Some(node) = &truth.node {
        pod["spec"]["nodeName"] = node.as_str().into();
        pod["status"]["phase"] = "Running".into();
    }
    if truth.leaving {
        pod["metadata"]["deletionTimestamp"] = now.to_string().into();
    }
    Object::Pod(Box::new(serde_json::from_value::<Pod>(pod).unwrap()))
}
