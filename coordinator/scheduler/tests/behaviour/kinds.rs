//! Queues share each kind of accelerators by itself.

use muster_scheduler::config::Config;
use muster_scheduler::decide;
use muster_scheduler::decisions::{Action, Decisions};
use muster_scheduler::input::{Limits, load};
use muster_scheduler::reason::Reason;
use muster_scheduler::snapshot::build;
use serde_json::{Value, json};

const GPU: &str = "nvidia.com/gpu";
const NPU: &str = "huawei.com/Ascend910";

fn node(name: &str, kind: &str, devices: u32) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable":
        {"cpu": "64", "memory": "256Gi", "pods": "110", kind: devices.to_string()}}})
}

/// A queue with numbers for `gpu` and for kinds that it names.
fn queue(name: &str, gpu: Value, kinds: &[(&str, Value)]) -> Value {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let mut queue = json!({"metadata": {"name": name}, "spec": {"parentQueue": "all",
        "resources": {"cpu": free, "memory": free, "gpu": gpu}}});
    for (kind, numbers) in kinds {
        queue["spec"]["resources"][*kind] = numbers.clone();
    }
    queue
}

fn numbers(quota: i32, limit: i32) -> Value {
    json!({"quota": quota, "limit": limit, "overQuotaWeight": 1})
}

struct World {
    nodes: Vec<Value>,
    queues: Vec<Value>,
    groups: Vec<Value>,
    pods: Vec<Value>,
}

impl World {
    /// Two nodes of 8 GPUs, as many of NPUs as is said, and queues below one that is free.
    fn new(npu_nodes: usize, queues: Vec<Value>) -> Self {
        let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        let all = json!({"metadata": {"name": "all"},
            "spec": {"resources": {"cpu": free, "memory": free, "gpu": free}}});
        let gpus = (0..2).map(|at| node(&format!("g{at}"), GPU, 8));
        let npus = (0..npu_nodes).map(|at| node(&format!("a{at}"), NPU, 8));
        Self {
            nodes: gpus.chain(npus).collect(),
            queues: [vec![all], queues].concat(),
            groups: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Groups of one pod each that ask for some devices of a kind; on a node, if one is named.
    fn jobs(
        &mut self,
        queue: &str,
        count: usize,
        kind: &str,
        devices: u32,
        node: &dyn Fn(usize) -> String,
    ) {
        for at in 0..count {
            let name = format!("{queue}-{}-{at}", kind.len());
            let place = node(at);
            self.groups.push(json!({"metadata": {"name": name, "namespace": "ns"},
                "spec": {"queue": queue, "minMember": 1}}));
            self.pods.push(json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
                    "annotations": {"pod-group-name": name}},
                "spec": {"schedulerName": "kai-scheduler", "nodeName": place,
                    "containers": [{"resources": {"requests": {kind: devices.to_string()}}}]},
                "status": {"phase": if place.is_empty() { "Pending" } else { "Running" }}}));
        }
    }

    fn decide(&self) -> Decisions {
        self.decide_with(true)
    }

    fn decide_with(&self, ignore_impossible: bool) -> Decisions {
        let document = json!({"now": "2026-01-01T00:00:00Z", "nodes": self.nodes, "queues": self.queues,
            "podGroups": self.groups, "pods": self.pods});
        let document = load(document.to_string().as_bytes(), Limits::default()).unwrap();
        let mut config = Config::of_document(&document, &[]).unwrap();
        config.params.ignore_impossible_groups = ignore_impossible;
        let now = document.input.now.unwrap();
        decide(&build(&document.input, &config.params, now), &config, now)
    }
}

fn waits(_: usize) -> String {
    String::new()
}

fn on_gpus(at: usize) -> String {
    format!("g{}", at / 8)
}

fn count(decisions: &Decisions, action: Action) -> usize {
    decisions.decisions.iter().filter(|one| one.action == action).count()
}

fn equal() -> Vec<Value> {
    ["first", "second"].map(|name| queue(name, numbers(0, -1), &[])).to_vec()
}

#[test]
fn idle_devices_of_another_kind_do_not_keep_a_queue_from_its_share() {
    for npu_nodes in [0, 8] {
        let mut world = World::new(npu_nodes, equal());
        world.jobs("first", 16, GPU, 1, &on_gpus);
        world.jobs("second", 16, GPU, 1, &waits);
        let decisions = world.decide();
        let fair = |queue: &str| {
            let share = &decisions.fair_share[queue];
            share.kinds.get(GPU).copied().unwrap_or(share.gpu)
        };
        assert_eq!((fair("first"), fair("second")), (8.0, 8.0), "{npu_nodes} nodes of NPUs");
        assert_eq!(count(&decisions, Action::Evict), 8, "{npu_nodes} nodes of NPUs");
    }
}

#[test]
fn with_one_kind_it_is_not_named_in_shares() {
    let mut world = World::new(0, equal());
    world.jobs("first", 4, GPU, 1, &waits);
    assert!(world.decide().fair_share["first"].kinds.is_empty());
}

#[test]
fn a_queue_that_is_above_its_share_of_one_kind_keeps_what_it_has_of_another() {
    let mut world = World::new(2, equal());
    // The first has all NPUs and half of the GPUs; the second wants a ninth GPU.
    world.jobs("first", 16, NPU, 1, &|at| format!("a{}", at / 8));
    world.jobs("first", 8, GPU, 1, &|_| "g0".to_owned());
    world.jobs("second", 8, GPU, 1, &|_| "g1".to_owned());
    world.groups.push(json!({"metadata": {"name": "more", "namespace": "ns"},
        "spec": {"queue": "second", "minMember": 1}}));
    world.pods.push(json!({"metadata": {"name": "more", "namespace": "ns", "uid": "more",
            "annotations": {"pod-group-name": "more"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"resources": {"requests": {GPU: "1"}}}]},
        "status": {"phase": "Pending"}}));
    assert_eq!(count(&world.decide(), Action::Evict), 0);
}

#[test]
fn a_limit_of_a_kind_that_is_named_holds_for_that_kind_and_says_so() {
    let queues = vec![queue("first", numbers(0, -1), &[(NPU, numbers(0, 4))])];
    let mut world = World::new(2, queues);
    world.jobs("first", 6, NPU, 1, &waits);
    world.jobs("first", 6, GPU, 1, &waits);
    let decisions = world.decide();
    assert_eq!(count(&decisions, Action::Bind), 4 + 6);
    let why = decisions.reasons.values().next().unwrap();
    assert_eq!(why.reason, Reason::OverLimit);
    assert!(why.message.contains("may have 4 huawei.com/Ascend910 and has 4"), "{}", why.message);
}

#[test]
fn gpu_is_the_default_of_each_kind_that_is_not_named() {
    let mut world = World::new(2, vec![queue("first", numbers(0, 4), &[])]);
    world.jobs("first", 6, NPU, 1, &waits);
    world.jobs("first", 6, GPU, 1, &waits);
    assert_eq!(count(&world.decide(), Action::Bind), 4 + 4);
}

#[test]
fn a_quota_of_a_kind_that_is_named_is_taken_back_from_others() {
    let own = queue("first", numbers(0, -1), &[(NPU, numbers(12, -1))]);
    let mut world = World::new(2, vec![own, queue("second", numbers(0, -1), &[])]);
    world.jobs("second", 16, NPU, 1, &|at| format!("a{}", at / 8));
    world.jobs("first", 16, NPU, 1, &waits);
    let decisions = world.decide();
    assert_eq!(decisions.fair_share["first"].kinds[NPU], 14.0);
    assert_eq!(count(&decisions, Action::Evict), 14);
}

#[test]
fn in_a_cluster_with_one_kind_its_name_counts_before_gpu() {
    let mut world = World::new(0, vec![queue("first", numbers(0, 2), &[(GPU, numbers(0, 5))])]);
    world.jobs("first", 8, GPU, 1, &waits);
    assert_eq!(count(&world.decide(), Action::Bind), 5);
}

#[test]
fn groups_that_can_never_run_do_not_ask_for_a_share() {
    let mut world = World::new(0, equal());
    world.jobs("first", 16, GPU, 1, &on_gpus);
    // Larger than any node, and a gang that is larger than all nodes.
    world.jobs("first", 1, "example.com/gpu", 9, &waits);
    world.jobs("second", 4, GPU, 1, &waits);
    world.groups.push(json!({"metadata": {"name": "gang", "namespace": "ns"},
        "spec": {"queue": "second", "minMember": 20}}));
    for at in 0..20 {
        let name = format!("gang-{at}");
        world.pods.push(json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
                "annotations": {"pod-group-name": "gang"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"resources": {"requests": {GPU: "1"}}}]},
            "status": {"phase": "Pending"}}));
    }
    let decisions = world.decide();
    let fair = |queue: &str| decisions.fair_share[queue].gpu;
    assert_eq!((fair("first"), fair("second")), (12.0, 4.0));
    let as_kai = world.decide_with(false);
    assert_eq!(as_kai.fair_share["second"].gpu, 8.0, "KAI counts what they ask for");
}
