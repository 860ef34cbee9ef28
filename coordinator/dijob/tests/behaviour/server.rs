//! The server: our decisions.

use muster_dijob::names::{self, label};
use muster_dijob::server;
use serde_json::{Value, json};

use crate::world::{World, body_of, job, replica};

fn message(answer: &(u16, Value)) -> &str {
    answer.1["message"].as_str().unwrap()
}

#[test]
fn what_was_made_is_there_at_once_and_what_was_deleted_is_not() {
    let mut world = World::new(&job());
    let made = world.create(&json!({"replicas": 3}), &json!({"replicas": 1}));
    let query = "namespace=rl&coordinator=cartpole-coordinator";
    let listed = body_of(world.ask("GET", server::REPLICAS, query, "{}")).1;
    let sorted = |list: &Value| {
        let mut list = list.as_array().unwrap().clone();
        list.sort_by_key(Value::to_string);
        list
    };
    assert_eq!(sorted(&listed["data"]["collectors"]), sorted(&made.1["data"]["collectors"]));
    let gone = world.delete(2, 5).1;
    assert_eq!(gone["data"]["collectors"].as_array().unwrap().len(), 2);
    assert_eq!(gone["data"]["learners"], made.1["data"]["learners"]);
    assert_eq!((world.names("collector").len(), world.names("learner").len()), (1, 0));
}

#[test]
fn half_a_learner_is_taken_back_and_whole_ones_stay() {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    // Two learners of an aggregator and two pods each: the very last pod is refused.
    world.refuse = Some(6);
    let answer = world.create(&json!(null), &json!({"replicas": 2, "gpus": 4}));
    assert_eq!((answer.0, message(&answer)), (500, "exceeded quota"));
    assert_eq!(answer.1["data"]["learners"].as_array().unwrap().len(), 1);
    assert_eq!((world.names("aggregator").len(), world.names("ddp-learner").len()), (1, 2));
    let left = world.names("aggregator").remove(0);
    assert_eq!(answer.1["data"]["learners"][0], format!("{left}.rl:22272"));
}

#[test]
fn a_name_that_is_taken_is_replaced_by_another() {
    let mut world = World::new(&job());
    world.taken = 5;
    assert_eq!(world.create(&json!({"replicas": 1}), &json!(null)).0, 200);
    world.taken = 6;
    let answer = world.create(&json!({"replicas": 1}), &json!(null));
    assert_eq!(answer.0, 500);
    assert!(message(&answer).contains("already exists"), "{answer:?}");
    assert_eq!(world.names("collector").len(), 1);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let one = json!({"replicas": 1});
    let mut without = job();
    without["spec"].as_object_mut().unwrap().remove("learner");
    let mut empty = job();
    empty["spec"]["collector"]["template"]["spec"]["containers"] = json!([]);
    let learner = |gpus: Value| json!({"replicas": 1, "gpus": gpus});
    let cases = [
        (job(), one.clone(), learner(json!("1.5")), 400, "gpus must be a whole number: 1500m"),
        (job(), one.clone(), learner(json!(-2)), 400, "learners.gpus must not be negative: -2"),
        (job(), one.clone(), learner(json!(5000)), 400, "learners.gpus is 5000: at most 4096"),
        (
            job(),
            json!({"replicas": 1001}),
            json!(null),
            400,
            "collectors.replicas is 1001: at most 1000 in one request",
        ),
        (without, one.clone(), one.clone(), 400, "DIJob rl/cartpole has no learner template"),
        (empty, one.clone(), json!(null), 400, "DIJob rl/cartpole has no collector template"),
    ];
    for (job, collectors, learners, status, expected) in cases {
        let mut world = World::new(&job);
        let answer = world.create(&collectors, &learners);
        assert_eq!((answer.0, message(&answer)), (status, expected));
        assert_eq!((world.creates, &answer.1["data"]["namespace"]), (0, &json!("")));
    }
}

#[test]
fn templates_that_nobody_asks_for_may_be_missing() {
    let mut serial = job();
    serial["spec"].as_object_mut().unwrap().retain(|key, _| key == "coordinator");
    let answer = World::new(&serial).create(&json!({"replicas": 0}), &json!({"replicas": -1}));
    assert_eq!(answer.0, 200);
}

#[test]
fn devices_of_huawei_are_spread_as_those_of_nvidia() {
    let mut job = job();
    let container = &mut job["spec"]["learner"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({"limits": {"huawei.com/Ascend910": "1"}});
    job["metadata"]["annotations"] = json!({"muster.dev/ranktable-template": "ascend"});
    let mut world = World::new(&job);
    assert_eq!(world.create(&json!(null), &json!({"replicas": 1, "gpus": 20})).0, 200);
    let learners: Vec<_> =
        world.names("ddp-learner").iter().map(|name| world.pods[name].clone()).collect();
    let mut devices: Vec<u64> = learners.iter().map(|pod| pod.devices()).collect();
    devices.sort_unstable();
    assert_eq!(devices, [4, 16]);
    let aggregator = world.names("aggregator").remove(0);
    for pod in &learners {
        assert_eq!(pod.label("muster.dev/rank-group"), aggregator);
        assert_eq!(pod.annotation("muster.dev/rank-group-size"), Some("2"));
    }
    assert_eq!(world.pods[&aggregator].annotation(names::DDP_PODS), Some("2"));
}

#[test]
fn with_the_first_of_a_group_all_are_replaced_and_a_later_one_goes_alone() {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    world.create(&json!(null), &json!({"replicas": 1, "gpus": 5}));
    let before = world.names("ddp-learner");
    let kind = |world: &World, kind: &str| {
        let all = world.names("ddp-learner").into_iter();
        all.filter(|name| world.pods[name].label(label::DDP) == kind).collect::<Vec<_>>()
    };
    let worker = kind(&world, label::DDP_WORKER).remove(0);
    assert_eq!(world.failed(&[&worker]).0, 200);
    let after = world.names("ddp-learner");
    assert_eq!(after.iter().filter(|name| !before.contains(name)).count(), 1);
    let master = kind(&world, label::DDP_MASTER).remove(0);
    world.nodes = vec![8];
    let others: Vec<String> = after.iter().filter(|name| **name != master).cloned().collect();
    let answer = world.failed(&[&master, &others[0]]);
    assert_eq!(answer.0, 200, "{answer:?}");
    let new = world.names("ddp-learner");
    assert!(new.iter().all(|name| !after.contains(name)), "{after:?} {new:?}");
    assert_eq!(new.len(), 3, "as many pods as before, since their aggregator says so");
    let master = kind(&world, label::DDP_MASTER).remove(0);
    assert_eq!(answer.1["data"]["learners"], json!([format!("{master}.rl:22271")]));
    for name in kind(&world, label::DDP_WORKER) {
        assert_eq!(world.pods[&name].variable("MASTER_ADDR"), Some(master.as_str()));
    }
}

/// A logic learner of three pods; its aggregator, its master and one of its workers.
fn split() -> (World, [String; 3]) {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    world.create(&json!(null), &json!({"replicas": 1, "gpus": 5}));
    let of = |kind: &str| {
        let mut all = world.names("ddp-learner").into_iter();
        all.find(|name| world.pods[name].label(label::DDP) == kind).unwrap()
    };
    let (master, worker) = (of(label::DDP_MASTER), of(label::DDP_WORKER));
    let aggregator = world.names("aggregator").remove(0);
    (world, [aggregator, master, worker])
}

/// The first rank of each pod.
fn starts(world: &World) -> Vec<String> {
    let of = |name: &String| world.pods[name].variable("START_RANK").unwrap().to_owned();
    let mut starts: Vec<_> = world.names("ddp-learner").iter().map(of).collect();
    starts.sort_unstable();
    starts
}

#[test]
fn a_group_is_replaced_once_in_whatever_order_its_pods_are_reported() {
    for order in [[2, 1], [1, 2], [2, 0], [0, 2], [1, 0], [0, 1]] {
        let (mut world, pods) = split();
        let before = world.names("ddp-learner");
        let answer = world.failed(&order.map(|place| pods[place].as_str()));
        assert_eq!(answer.0, 200, "{order:?}: {answer:?}");
        assert_eq!(answer.1["data"]["learners"].as_array().unwrap().len(), 1, "{order:?}");
        let after = world.names("ddp-learner");
        assert!(after.iter().all(|name| !before.contains(name)), "{order:?}: {after:?}");
        assert_eq!(starts(&world), ["0", "2", "4"], "{order:?}");
        assert_eq!(world.names("aggregator").len(), 1, "{order:?}");
    }
}

#[test]
fn a_group_that_has_lost_a_pod_is_made_again_with_as_many_as_before() {
    let (mut world, [aggregator, master, worker]) = split();
    world.pods.remove(&worker);
    world.nodes = vec![8];
    assert_eq!(world.failed(&[&master]).0, 200);
    assert_eq!(starts(&world), ["0", "2", "4"]);
    assert_eq!(world.names("aggregator"), [aggregator]);
}

#[test]
fn learners_of_more_pods_than_anybody_has_are_refused_before_anything_is_made() {
    let mut world = World::new(&job());
    world.nodes = vec![1];
    let answer = world.create(&json!(null), &json!({"replicas": 1000, "gpus": 4096}));
    let expected =
        "learners.replicas is 1000, of 4097 pods each: at most 10000 pods in one request";
    assert_eq!((answer.0, message(&answer), world.creates), (400, expected, 0));
}

#[test]
fn what_is_reported_twice_was_replaced_already() {
    let mut world = World::new(&job());
    world.create(&json!(null), &json!({"replicas": 1}));
    let name = world.names("learner").remove(0);
    assert_eq!(world.failed(&[&name]).0, 200);
    let again = world.failed(&[&name]);
    assert_eq!((again.0, &again.1["data"]["learners"]), (200, &json!([])));
    assert_eq!(world.names("learner").len(), 1);
    let other = world.failed(&["qbert-learner-bbbbb"]);
    assert_eq!(
        (other.0, message(&other)),
        (404, "pod: rl/qbert-learner-bbbbb not exists in cache")
    );
}

#[test]
fn an_aggregator_without_learners_is_not_replaced() {
    let mut world = World::new(&job());
    world.put("aggregator", "cartpole-aggregator-ddddd", json!({"phase": "Running"}));
    let answer = world.failed(&["cartpole-aggregator-ddddd"]);
    let expected = "aggregator cartpole-aggregator-ddddd has no ddp learners to recreate";
    assert_eq!((answer.0, message(&answer)), (500, expected));
    assert_eq!(world.names("aggregator"), ["cartpole-aggregator-ddddd"]);
}

#[test]
fn those_that_do_the_least_are_deleted_first() {
    let mut world = World::new(&job());
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let at = |pod: &mut muster_dijob::pod::Pod, time: &str| {
        pod.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
    };
    at(world.put("collector", "cartpole-collector-ready", ready), "2026-01-01T00:00:03Z");
    at(
        world.put("collector", "cartpole-collector-young", json!({"phase": "Running"})),
        "2026-01-01T00:00:02Z",
    );
    at(
        world.put("collector", "cartpole-collector-old", json!({"phase": "Running"})),
        "2026-01-01T00:00:01Z",
    );
    at(
        world.put("collector", "cartpole-collector-pending", json!({"phase": "Pending"})),
        "2026-01-01T00:00:00Z",
    );
    world.delete(4, 0);
    let names =
        ["pending", "young", "old", "ready"].map(|name| format!("cartpole-collector-{name}"));
    assert_eq!(world.deleted, names);
}

#[test]
fn a_priority_reaches_all_pods_that_name_none() {
    let mut job = job();
    job["spec"]["priorityClassName"] = "high".into();
    job["spec"]["learner"]["template"]["spec"]["priorityClassName"] = "own".into();
    let mut world = World::new(&job);
    world.create(&json!({"replicas": 1}), &json!({"replicas": 1}));
    let priority = |world: &World, role: &str| {
        world.pods[&world.names(role)[0]].spec.get("priorityClassName").cloned()
    };
    assert_eq!(priority(&world, "collector"), Some(json!("high")));
    assert_eq!(priority(&world, "learner"), Some(json!("own")));
    let mut world = World::new(&job);
    world.settings.propagate_priority = false;
    world.create(&json!({"replicas": 1}), &json!(null));
    assert_eq!(priority(&world, "collector"), None);
}

#[test]
fn ports_can_make_up_for_ranks() {
    let mut world = World::new(&job());
    (world.nodes, world.settings.rank_shifted) = (vec![2], true);
    world.create(&json!(null), &json!({"replicas": 1, "gpus": 4}));
    let port = |kind: &str| {
        let of = |pod: &&std::sync::Arc<muster_dijob::pod::Pod>| pod.label(label::DDP) == kind;
        let pod = world.pods.values().find(of).unwrap();
        (pod.variable("LEARNER_PORT").unwrap().to_owned(), pod.port())
    };
    assert_eq!(port(label::DDP_MASTER), ("22271".to_owned(), 22271));
    assert_eq!(port(label::DDP_WORKER), ("22269".to_owned(), 22271), "22269 and rank 2");
}

#[test]
fn a_variable_of_the_template_gives_way_in_its_place() {
    let mut job = job();
    let mut mine = replica();
    mine["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "KUBERNETES_POD_NAME", "value": "me"}, {"name": "LAST", "value": "1"}]);
    job["spec"]["collector"] = mine;
    let mut world = World::new(&job);
    world.create(&json!({"replicas": 1}), &json!(null));
    let name = world.names("collector").remove(0);
    let pod = &world.pods[&name];
    let env = pod.worker().unwrap()["env"].as_array().unwrap();
    assert_eq!(env[0], json!({"name": "KUBERNETES_POD_NAME", "value": name}));
    assert_eq!(env.iter().filter(|one| one["name"] == "KUBERNETES_POD_NAME").count(), 1);
}

#[test]
fn bodies_are_read_leniently_and_never_loosely() {
    let mut world = World::new(&job());
    let asked =
        |world: &mut World, body: &str| body_of(world.ask("POST", server::REPLICAS, "", body)).0;
    let good =
        r#"{"NAMESPACE":"rl","coordinator":"cartpole-coordinator","collectors":null} trailing"#;
    assert_eq!(asked(&mut world, good), 200);
    for bad in [
        "",
        "[]",
        "7",
        "{",
        r#"{"namespace":7}"#,
        r#"{"collectors":[]}"#,
        r#"{"collectors":{"replicas":1.5}}"#,
        r#"{"collectors":{"replicas":1e3}}"#,
        r#"{"collectors":{"replicas":99999999999999999999}}"#,
        r#"{"collectors":{"cpus":""}}"#,
        r#"{"collectors":{"cpus":true}}"#,
        r#"{"learners":{"gpus":"many"}}"#,
    ] {
        assert_eq!(asked(&mut world, bad), 400, "{bad}");
    }
    let report =
        |world: &mut World, body: &str| body_of(world.ask("POST", server::FAILED, "", body)).0;
    for bad in [r#"{"collectors":"a"}"#, r#"{"learners":[1]}"#, r#"{"learners":{}}"#] {
        assert_eq!(report(&mut world, bad), 400, "{bad}");
    }
    assert_eq!(world.creates, 0);
}
