//! Laws of faults, on runs of which each step is drawn: policy `none` never evicts; no gang is restarted twice within its cool-down,
//! whoever leads and whatever is lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler_state::fault::{ACTION, Care, Note};
use muster_scheduler_state::object::name;
use muster_scheduler_state::{Cluster, Evict, Kind, Object, Outcome, Settings};
use proptest::prelude::*;
use serde_json::json;

const GANGS: [(&str, &str); 3] = [("left", "none"), ("single", "evict"), ("whole", "gang")];
const NODES: usize = 4;
const COOL_DOWN: i64 = 60;

#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u8),
    Strike(u8),
    Heal,
    Node(u8, bool),
    Cycle,
    /// An order is done, and whether its answer is heard.
    Do(u8, bool),
    Refuse(u8),
    /// Whoever makes pods makes those that are missing.
    Replace,
    /// The coordinator is killed, and another lists everything.
    Kill,
}

enum Order {
    Note(Note),
    /// For the restart that was written when it was ordered: it may be done much later.
    Evict(Evict, Timestamp),
}

struct Truth {
    uid: String,
    node: usize,
    made: Timestamp,
}

struct World {
    now: Timestamp,
    /// The API server's clock is another one.
    skew: SignedDuration,
    cluster: Cluster,
    pods: BTreeMap<String, Truth>,
    marks: BTreeMap<String, [(&'static str, String); 3]>,
    faulted: Option<String>,
    ready: [bool; NODES],
    orders: Vec<Order>,
    made: usize,
    /// Restarts for which somebody has gone: when they were decided.
    restarts: BTreeMap<String, BTreeSet<Timestamp>>,
    /// How many pods had been made when the first went for each of them.
    before: BTreeMap<(String, Timestamp), usize>,
    evicted: usize,
}

impl World {
    fn new(skew: i64) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut world = Self {
            now,
            skew: SignedDuration::from_secs(skew),
            cluster: Cluster::new(Settings::default()),
            pods: BTreeMap::new(),
            marks: BTreeMap::new(),
            faulted: None,
            ready: [true; NODES],
            orders: Vec::new(),
            made: 0,
            restarts: BTreeMap::new(),
            before: BTreeMap::new(),
            evicted: 0,
        };
        world.replace();
        world.now = world.after(10);
        world.begin();
        world
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    fn begin(&mut self) {
        let care = Care {
            grace: SignedDuration::from_secs(5),
            node_grace: SignedDuration::from_secs(5),
            cool_down: SignedDuration::from_secs(COOL_DOWN),
            ..Care::default()
        };
        self.orders.clear();
        self.cluster = Cluster::new(Settings { faults: care, ..Settings::default() });
        let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
        let queue = json!({"metadata": {"name": "q"}, "spec":
            {"resources": {"cpu": free, "memory": free, "gpu": free}}});
        self.cluster.put(Object::Queue(serde_json::from_value(queue).unwrap()));
        for node in 0..NODES {
            self.put_node(node);
        }
        for (gang, _) in GANGS {
            self.put_group(gang);
        }
        for pod in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.put_pod(&pod);
        }
        self.hold();
    }

    fn put_node(&mut self, node: usize) {
        let ready = if self.ready[node] { "True" } else { "False" };
        let node = json!({"metadata": {"name": format!("n{node}")}, "status": {"allocatable":
            {"nvidia.com/gpu": "8", "cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}]}});
        self.cluster.put(Object::Node(serde_json::from_value(node).unwrap()));
    }

    fn put_group(&mut self, gang: &str) {
        let policy = GANGS.iter().find(|(name, _)| *name == gang).unwrap().1;
        let mut annotations = json!({"muster.dev/fault-policy": policy});
        for (key, text) in self.marks.get(gang).into_iter().flatten() {
            annotations[*key] = text.as_str().into();
        }
        let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
            "metadata": {"name": gang, "namespace": "team", "uid": gang, "annotations": annotations},
            "spec": {"queue": "q", "minMember": 1}});
        self.cluster.put(Object::PodGroup(serde_json::from_value(group).unwrap()));
    }

    fn put_pod(&mut self, pod: &str) {
        let Truth { uid, node, made } = &self.pods[pod];
        let gang = pod.split('-').next().unwrap();
        let pod = json!({"metadata": {"name": pod, "namespace": "team", "uid": uid,
                "creationTimestamp": made, "annotations": {"pod-group-name": gang}},
            "spec": {"schedulerName": "muster-scheduler", "nodeName": format!("n{node}"),
                "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
            "status": {"phase": "Running"}});
        self.cluster.put(Object::Pod(serde_json::from_value(pod).unwrap()));
    }

    fn hold(&mut self) {
        for node in 0..NODES {
            let hit = self.faulted.iter().filter_map(|pod| {
                let truth = self.pods.get(pod).filter(|truth| truth.node == node)?;
                Some((truth.uid.clone(), "device 0: lost".to_owned()))
            });
            let hit = hit.collect();
            self.cluster.hold(&format!("n{node}"), hit);
        }
    }

    fn replace(&mut self) {
        for (at, (gang, _)) in GANGS.iter().enumerate() {
            for number in 0..2 {
                let pod = format!("{gang}-{number}");
                if self.pods.contains_key(&pod) {
                    continue;
                }
                self.made += 1;
                let seconds = self.now.saturating_add(self.skew).unwrap().as_second();
                let made = Timestamp::from_second(seconds).unwrap();
                let truth = Truth { uid: self.made.to_string(), node: (at + number) % NODES, made };
                self.pods.insert(pod.clone(), truth);
                self.put_pod(&pod);
            }
        }
        self.hold();
    }

    /// An order reaches the API server.
    fn order(&mut self, at: u8, heard: bool) {
        if self.orders.is_empty() {
            return;
        }
        let order = self.orders.swap_remove(at as usize % self.orders.len());
        let answer = if heard { Outcome::Done } else { Outcome::Unsure("no answer".to_owned()) };
        match order {
            Order::Note(note) => {
                let gang = note.group.1.1.to_string();
                self.marks.insert(gang.clone(), note.annotations());
                self.cluster.noted(&note.group, note.restart.at, &answer, self.now);
                if heard {
                    self.put_group(&gang);
                }
            }
            Order::Evict(evict, restart) => {
                let pod = evict.pod.1.to_string();
                if self.pods.get(&pod).is_some_and(|truth| truth.uid == evict.uid) {
                    self.law(&pod, restart);
                    self.evicted += 1;
                    self.pods.remove(&pod);
                    self.cluster.evicted(&evict.pod, &evict.uid, &answer, self.now);
                    self.cluster.remove(Kind::Pod, &name("team", &pod));
                }
            }
        }
    }

    /// What must hold whenever a pod goes.
    fn law(&mut self, pod: &str, restart: Timestamp) {
        let gang = pod.split('-').next().unwrap();
        let policy = GANGS.iter().find(|(name, _)| *name == gang).unwrap().1;
        assert_ne!(policy, "none", "{pod} goes by policy none");
        self.restarts.entry(gang.to_owned()).or_default().insert(restart);
        let before = *self.before.entry((gang.to_owned(), restart)).or_insert(self.made);
        let number: usize = self.pods[pod].uid.parse().unwrap();
        assert!(
            number <= before,
            "{pod} has come after the restart of {restart} and goes within its cool-down"
        );
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Pass(seconds) => self.now = self.after(i64::from(seconds)),
            Step::Strike(at) => {
                let all: Vec<&String> = self.pods.keys().collect();
                self.faulted = (!all.is_empty()).then(|| all[at as usize % all.len()].clone());
                self.hold();
            }
            Step::Heal => {
                self.faulted = None;
                self.hold();
            }
            Step::Node(node, ready) => {
                let node = node as usize % NODES;
                self.ready[node] = ready;
                self.put_node(node);
            }
            Step::Cycle => {
                let cycle = self.cluster.cycle(self.now);
                let faults = cycle.evictions.into_iter().filter(|one| one.why.action == ACTION);
                for evict in faults {
                    let gang = evict.pod.1.split('-').next().unwrap();
                    let restart = self.marks[gang][0].1.parse().unwrap();
                    self.orders.push(Order::Evict(evict, restart));
                }
                self.orders.extend(cycle.notes.into_iter().map(Order::Note));
            }
            Step::Do(at, heard) => self.order(at, heard),
            Step::Refuse(at) if !self.orders.is_empty() => {
                let refused = Outcome::Failed("429".to_owned());
                match self.orders.swap_remove(at as usize % self.orders.len()) {
                    Order::Note(note) => {
                        self.cluster.noted(&note.group, note.restart.at, &refused, self.now);
                    }
                    Order::Evict(evict, _) => {
                        self.cluster.evicted(&evict.pod, &evict.uid, &refused, self.now);
                    }
                }
            }
            Step::Refuse(_) => {}
            Step::Replace => self.replace(),
            Step::Kill => self.begin(),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0_u8..12).prop_map(Step::Pass),
        1 => (20_u8..90).prop_map(Step::Pass),
        2 => any::<u8>().prop_map(Step::Strike),
        1 => Just(Step::Heal),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(node, ready)| Step::Node(node, ready)),
        6 => Just(Step::Cycle),
        6 => (any::<u8>(), prop::bool::weighted(0.8)).prop_map(|(at, heard)| Step::Do(at, heard)),
        1 => any::<u8>().prop_map(Step::Refuse),
        3 => Just(Step::Replace),
        1 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn none_never_evicts_and_no_gang_is_restarted_twice_within_its_cool_down(
        skew in -20_i64..20, steps in steps())
    {
        let mut world = World::new(skew);
        for step in steps {
            world.step(step);
        }
        for (gang, restarts) in &world.restarts {
            for (first, second) in restarts.iter().zip(restarts.iter().skip(1)) {
                let apart = second.duration_since(*first).as_secs();
                prop_assert!(apart >= COOL_DOWN, "{} was restarted {} s apart", gang, apart);
            }
        }
    }
}

/// A run in which nothing happens shows nothing.
#[test]
fn in_the_world_of_these_laws_gangs_are_restarted_at_all() {
    let mut world = World::new(0);
    let round = [Step::Strike(4), Step::Cycle, Step::Pass(6), Step::Cycle, Step::Do(0, true)];
    for step in round.into_iter().chain([Step::Cycle, Step::Do(0, true), Step::Do(0, true)]) {
        world.step(step);
    }
    assert_eq!((world.restarts.len(), world.evicted), (1, 2), "{:?}", world.restarts);
}
