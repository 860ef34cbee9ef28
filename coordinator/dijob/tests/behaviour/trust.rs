//! Whose requests count.

use std::net::IpAddr;
use std::sync::Arc;

use muster_dijob::names::label;
use muster_dijob::pod::Pod;
use muster_dijob::server::answer::{Answer, Body};
use muster_dijob::server::trust::{Subject, TokenError, Trust, Verdict, judge, may_be_a_pod};
use muster_dijob::server::{Begun, FAILED, Next, REPLICAS, Request, Route};
use serde_json::{Value, json};

use crate::world::{World, job};

const COORDINATOR: &str = "10.0.0.1";
const COLLECTOR: &str = "10.0.0.2";
const STRANGER: &str = "10.0.0.9";

fn running(address: &str) -> Value {
    json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}, {"ip": "fd00::1"}],
        "hostIP": "192.168.0.1"})
}

/// A job whose coordinator and collector have addresses, and a collector of another job.
fn world() -> World {
    let mut world = World::new(&job());
    world.put("coordinator", "cartpole-coordinator", running(COORDINATOR));
    world.put("collector", "cartpole-collector-aaaaa", running(COLLECTOR));
    let other = world.put("collector", "other-collector-aaaaa", running(STRANGER));
    other.metadata.labels.as_mut().unwrap().insert(label::JOB.to_owned(), "other".to_owned());
    for owner in other.metadata.owner_references.iter_mut().flatten() {
        (owner.name, owner.uid) = ("other".to_owned(), "job-2".to_owned());
    }
    world
}

fn asked(namespace: &str, coordinator: &str) -> String {
    json!({"namespace": namespace, "coordinator": coordinator, "collectors": {"replicas": 1}})
        .to_string()
}

fn verdict(world: &World, method: &str, target: &str, body: &str, source: &str) -> Verdict {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request { method, path, query, body: body.as_bytes() };
    let source: IpAddr = source.parse().unwrap();
    let about = (Route::of(method, path), &Subject::of(&request));
    judge(world, Trust::PodsAndTokens, about, source.to_canonical())
}

/// In short: admitted, or the right that is needed, and whether the caller may be one of the job's pods.
fn short(verdict: Verdict) -> String {
    match verdict {
        Verdict::Admitted => "admitted".to_owned(),
        Verdict::NeedsToken { right, unsure } => {
            let namespace = right.namespace.map_or("*".to_owned(), String::from);
            let job = right.job.map_or("*".to_owned(), String::from);
            let unsure = if unsure.is_some() { " unsure" } else { "" };
            format!("{} {namespace}/{job}{unsure}", right.verb)
        }
    }
}

#[test]
fn a_request_counts_if_it_comes_from_a_pod_of_the_job_that_it_is_about() {
    let (world, mine) = (world(), asked("rl", "cartpole-coordinator"));
    let reported = |names: &[&str], reporter: &str| {
        json!({"namespace": "rl", "coordinator": reporter, "collectors": names}).to_string()
    };
    let own = reported(&["cartpole-collector-aaaaa"], "cartpole-coordinator");
    let foreign = reported(&["other-collector-aaaaa"], "cartpole-coordinator");
    let unknown = reported(&["cartpole-collector-aaaaa"], "");
    let of = |query: &str| format!("{REPLICAS}?{query}");
    let get = of("namespace=rl&coordinator=cartpole-coordinator");
    let (ghost, slash) = (asked("rl", "ghost"), asked("rl/pods?x=", "cartpole-coordinator"));
    let elsewhere = asked("elsewhere", "cartpole-coordinator");
    let (all_of_rl, no_namespace) = (of("namespace=rl"), of("coordinator=cartpole-coordinator"));
    let slash_in_query = of("namespace=rl%2Fpods%3Fx%3D");
    let table: Vec<(&str, &str, &str, &str, &str)> = vec![
        ("POST", REPLICAS, &mine, COORDINATOR, "admitted"),
        ("POST", REPLICAS, &mine, COLLECTOR, "admitted"),
        ("POST", REPLICAS, &mine, "::ffff:10.0.0.1", "admitted"),
        ("POST", REPLICAS, &mine, "fd00::1", "admitted"),
        ("DELETE", REPLICAS, &mine, COORDINATOR, "admitted"),
        ("GET", &get, "{}", COORDINATOR, "admitted"),
        ("POST", FAILED, &own, COORDINATOR, "admitted"),
        ("POST", FAILED, &unknown, COORDINATOR, "admitted"),
        // Somebody else's pod, the node, this machine.
        ("POST", REPLICAS, &mine, STRANGER, "create rl/cartpole"),
        ("DELETE", REPLICAS, &mine, STRANGER, "delete rl/cartpole"),
        ("GET", &get, "{}", STRANGER, "get rl/cartpole"),
        ("POST", REPLICAS, &mine, "192.168.0.1", "create rl/cartpole"),
        ("POST", REPLICAS, &mine, "127.0.0.1", "create rl/cartpole"),
        ("POST", REPLICAS, &mine, "::1", "create rl/cartpole"),
        ("POST", FAILED, &own, STRANGER, "create rl/cartpole"),
        // Pods of two jobs, and those that are not there.
        ("POST", FAILED, &foreign, COORDINATOR, "create rl/*"),
        ("POST", REPLICAS, &ghost, COORDINATOR, "create rl/*"),
        ("POST", REPLICAS, &elsewhere, COORDINATOR, "create elsewhere/*"),
        // A job's pod has no business with the others.
        ("GET", REPLICAS, "{}", COORDINATOR, "list */*"),
        ("GET", &all_of_rl, "{}", COORDINATOR, "list rl/*"),
        ("GET", &no_namespace, "{}", COORDINATOR, "list */*"),
        // What is wrong with these is said to everybody, and nothing is done.
        ("POST", REPLICAS, "{", STRANGER, "admitted"),
        ("POST", REPLICAS, &slash, STRANGER, "admitted"),
        ("GET", &slash_in_query, "{}", STRANGER, "admitted"),
    ];
    for (method, target, body, source, expected) in table {
        let found = short(verdict(&world, method, target, body, source));
        assert_eq!(found, expected, "{method} {target} {body} from {source}");
    }
}

#[test]
fn with_trust_in_anyone_all_requests_count_as_with_the_orchestrator() {
    let (world, body) = (world(), asked("rl", "cartpole-coordinator"));
    let request = Request { method: "POST", path: REPLICAS, query: "", body: body.as_bytes() };
    let about = (Route::Create, &Subject::of(&request));
    let verdict = judge(&world, Trust::Anyone, about, "127.0.0.1".parse().unwrap());
    assert_eq!(verdict, Verdict::Admitted);
}

#[test]
fn an_address_counts_only_while_it_is_surely_that_of_the_pod() {
    type Change = fn(&mut Pod);
    let cases: [(&str, Change, &str); 5] = [
        (
            "its containers have ended, and its address may be another's",
            |pod| drop(pod.status.insert("phase".to_owned(), json!("Succeeded"))),
            "create rl/cartpole",
        ),
        (
            "it is in the network of its node",
            |pod| drop(pod.spec.insert("hostNetwork".to_owned(), json!(true))),
            "create rl/cartpole",
        ),
        (
            "its address is that of its node",
            |pod| drop(pod.status.insert("hostIP".to_owned(), json!(COORDINATOR))),
            "create rl/cartpole",
        ),
        (
            "it runs, and its kubelet has not said where",
            |pod| {
                drop(pod.spec.insert("nodeName".to_owned(), json!("n1")));
                pod.status.retain(|key, _| key == "phase");
            },
            "create rl/cartpole unsure",
        ),
        (
            "it is on no node: nothing in it can call",
            |pod| pod.status.clear(),
            "create rl/cartpole",
        ),
    ];
    let body = asked("rl", "cartpole-collector-aaaaa");
    for (why, change, expected) in cases {
        let mut world = world();
        let pod = world.pods.get_mut("cartpole-coordinator").unwrap();
        change(Arc::make_mut(pod));
        let found = short(verdict(&world, "POST", REPLICAS, &body, COORDINATOR));
        assert_eq!(found, expected, "{why}");
    }
    // A pod of a job of the same name that was there before.
    let mut world = world();
    let pod = Arc::make_mut(world.pods.get_mut("cartpole-coordinator").unwrap());
    pod.metadata
        .owner_references
        .iter_mut()
        .flatten()
        .for_each(|owner| owner.uid = "job-0".to_owned());
    let found = short(verdict(&world, "POST", REPLICAS, &body, COORDINATOR));
    assert_eq!(found, "create rl/cartpole");
    for local in [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "169.254.1.1",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
    ] {
        assert!(!may_be_a_pod(local.parse().unwrap()), "{local}");
    }
}

#[test]
fn a_refusal_says_what_would_count_and_tells_a_stranger_nothing_else() {
    let world = world();
    let Verdict::NeedsToken { right, .. } =
        verdict(&world, "POST", REPLICAS, &asked("rl", "cartpole-coordinator"), STRANGER)
    else {
        panic!("a stranger is admitted");
    };
    let said = |error: TokenError| {
        let refusal = right.refusal(STRANGER.parse().unwrap(), &error);
        (refusal.status, refusal.message)
    };
    let (status, text) = said(TokenError::Missing);
    assert_eq!(status, 401);
    for part in [STRANGER, "muster-di-server", "create dijobs/replicas", "namespace rl"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("cartpole"), "{text}");
    assert_eq!(said(TokenError::Invalid("it has expired".to_owned())).0, 401);
    let (status, text) = said(TokenError::Forbidden("jane".to_owned()));
    assert!(status == 403 && text.contains("jane"), "{text}");
}

#[test]
fn a_job_that_has_ended_gets_no_replicas() {
    for phase in ["Succeeded", "Failed"] {
        let mut ended = job();
        ended["status"] = json!({"phase": phase});
        let mut world = World::new(&ended);
        world.put("collector", "cartpole-collector-aaaaa", running(COLLECTOR));
        let one = json!({"replicas": 1});
        for said in [
            world.create(&one, &json!(null)),
            world.create(&json!(null), &one),
            world.failed(&["cartpole-collector-aaaaa"]),
        ] {
            let text = said.1["message"].as_str().unwrap();
            assert!(
                said.0 == 400 && text.contains(&format!("DIJob rl/cartpole is {phase}")),
                "{said:?}"
            );
        }
        assert_eq!((world.creates, world.deleted.len()), (0, 0));
        assert_eq!(
            world.create(&json!({"replicas": 0}), &json!(null)).0,
            200,
            "nothing is asked for"
        );
        assert_eq!(world.delete(1, 0).0, 200, "what is left may go");
    }
}

#[test]
fn a_job_has_no_more_pods_than_it_may() {
    let mut world = World::new(&job());
    world.settings.most_pods = 4;
    assert_eq!(world.create(&json!({"replicas": 3}), &json!(null)).0, 200);
    let said = world.create(&json!({"replicas": 1}), &json!(null));
    let text = "DIJob rl/cartpole has 4 pods, and 1 more are asked for: at most 4 of one job";
    assert_eq!((said.0, said.1["message"].as_str()), (400, Some(text)));
    assert_eq!(world.delete(1, 0).0, 200);
    assert_eq!(world.create(&json!({"replicas": 1}), &json!(null)).0, 200);
}

#[test]
fn work_that_is_given_up_ends_with_the_replica_that_was_begun() {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    let wanted = json!({"namespace": "rl", "coordinator": "cartpole-coordinator",
        "learners": {"replicas": 3, "gpus": 4}});
    let body = wanted.to_string();
    let request = Request { method: "POST", path: REPLICAS, query: "", body: body.as_bytes() };
    let Begun::Work(mut work) = world.begin(&request) else { panic!("it is refused") };
    let answer = loop {
        match work.advance() {
            Next::Done(answer) => break answer,
            Next::Write(write) => {
                work.done(world.write(write));
                work.give_up();
            }
        }
    };
    assert_eq!(world.creates, 3, "an aggregator and its two pods");
    let Answer { body: Body::Json(said), .. } = answer else { panic!("no envelope") };
    assert_eq!(said["data"]["learners"].as_array().unwrap().len(), 1);
}
