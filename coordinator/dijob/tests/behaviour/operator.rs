//! The operator: our decisions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_dijob::api::{DIJob, Status, phase};
use muster_dijob::make::Settings;
use muster_dijob::names;
use muster_dijob::operator::{self, Pass, Remnants, ServiceSeen, Step};
use muster_dijob::pod::Pod;
use serde_json::{Value, json};

use crate::world::{World, job};

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn look(job: &DIJob, world: &World, services: &[ServiceSeen]) -> Pass {
    let pods: Vec<&Pod> = world.pods.values().map(|pod| &**pod).collect();
    operator::reconcile(job, &pods, services, &mut Remnants::default(), &Settings::default(), now())
}

fn in_phase(name: &str) -> DIJob {
    let mut job: DIJob = serde_json::from_value(job()).unwrap();
    job.status = Some(Status { phase: name.to_owned(), ..Status::default() });
    job
}

#[test]
fn a_job_goes_from_nothing_to_its_end_and_stays_there() {
    let mut world = World::new(&job());
    world.pods.clear();
    let mut job = (*world.job).clone();
    let first = look(&job, &world, &[]);
    assert_eq!(first.status.phase, phase::CREATED);
    let [Step::CreatePod(pod), Step::CreateService(_)] = &first.steps[..] else {
        panic!("{first:?}")
    };
    assert_eq!(pod.name(), "cartpole-coordinator");
    job.status = Some(first.status);
    for (said, expected) in
        [("Pending", phase::CREATED), ("Running", phase::RUNNING), ("Succeeded", phase::SUCCEEDED)]
    {
        world.put("coordinator", "cartpole-coordinator", json!({"phase": said}));
        let pass = look(&job, &world, &[]);
        assert_eq!(pass.status.phase, expected);
        job.status = Some(pass.status);
    }
    let last = look(&job, &world, &[]);
    assert!(last.steps.is_empty() && !last.changed, "{last:?}");
    world.put("coordinator", "cartpole-coordinator", json!({"phase": "Running"}));
    let after = look(&job, &world, &[]);
    assert_eq!(after.status.phase, phase::SUCCEEDED, "it has ended");
    assert!(operator::first_seen(&job, now()).is_none());
}

#[test]
fn services_go_also_when_no_pod_is_left() {
    let service = ServiceSeen {
        name: "cartpole-coordinator".into(),
        uid: "s".into(),
        job: "job-1".into(),
        terminating: false,
    };
    let mut world = World::new(&job());
    world.pods.clear();
    let pass = look(&in_phase("Failed"), &world, std::slice::from_ref(&service));
    assert!(
        matches!(&pass.steps[..], [Step::DeleteService(named)] if named.uid == "s"),
        "{pass:?}"
    );
    let theirs = ServiceSeen { job: "another".into(), ..service };
    assert!(look(&in_phase("Failed"), &world, &[theirs]).steps.is_empty());
}

#[test]
fn the_container_that_does_the_work_ends_the_job_though_others_run() {
    let cases = [
        (
            json!([{"name": "di-container", "state": {"terminated": {"exitCode": 0}}}, {"name": "proxy"}]),
            phase::SUCCEEDED,
        ),
        (
            json!([{"name": "di-container", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, {"name": "proxy"}]),
            phase::FAILED,
        ),
        (
            json!([{"name": "proxy", "state": {"terminated": {"exitCode": 1}}}, {"name": "di-container"}]),
            phase::RUNNING,
        ),
        (json!([{"name": "only", "state": {"terminated": {"exitCode": 1}}}]), phase::FAILED),
    ];
    for (containers, expected) in cases {
        let mut world = World::new(&job());
        let status = json!({"phase": "Running", "containerStatuses": containers});
        world.put("coordinator", "cartpole-coordinator", status.clone());
        assert_eq!(look(&in_phase("Running"), &world, &[]).status.phase, expected, "{status}");
    }
}

#[test]
fn a_pod_of_a_job_that_is_gone_is_neither_counted_nor_deleted() {
    let mut world = World::new(&job());
    world.put("coordinator", "cartpole-coordinator", json!({"phase": "Succeeded"}));
    let mut job = in_phase("Created");
    job.metadata.uid = Some("job-2".to_owned());
    let pass = look(&job, &world, &[]);
    assert_eq!(pass.status.phase, phase::CREATED);
    assert!(pass.steps.is_empty(), "{pass:?}");
    job.spec.clean_pod_policy = "All".to_owned();
    job.status.as_mut().unwrap().phase = "Failed".to_owned();
    assert!(look(&job, &world, &[]).steps.is_empty());
}

#[test]
fn two_coordinators_are_too_many() {
    let mut world = World::new(&job());
    world.put("coordinator", "cartpole-other", json!({"phase": "Running"}));
    let pass = look(&in_phase("Created"), &world, &[]);
    assert_eq!(pass.trouble.as_deref(), Some("there must be only one coordinator"));
    assert!(!pass.changed);
}

#[test]
fn a_job_that_cannot_be_read_has_failed_once() {
    let (status, event) =
        operator::unreadable(None, "rl/bad", "spec.volumes: not a list", now()).unwrap();
    assert_eq!(status.phase, phase::FAILED);
    assert_eq!(event.message, "failed to convert DIJob rl/bad: spec.volumes: not a list");
    assert!(operator::unreadable(Some(status), "rl/bad", "again", now()).is_none());
}

/// Names that go, some time after they were first seen.
fn gone(world: &World, remnants: &mut Remnants, after: i64) -> (Vec<String>, Option<Duration>) {
    let pods: Vec<&Pod> = world.pods.values().map(|pod| &**pod).collect();
    let later = now() + SignedDuration::from_secs(after);
    let job = in_phase("Running");
    let pass = operator::reconcile(&job, &pods, &[], remnants, &Settings::default(), later);
    let deleted = pass.steps.iter().filter_map(|step| match step {
        Step::DeletePod(named) => Some(named.name.clone()),
        _ => None,
    });
    (deleted.collect(), pass.again)
}

#[test]
fn what_is_left_of_a_learner_goes_after_a_minute() {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    world.create(&json!(null), &json!({"replicas": 1, "gpus": 4}));
    let whole = world.pods.clone();
    assert_eq!(
        gone(&world, &mut Remnants::default(), 600),
        (vec![], Some(Duration::from_secs(600)))
    );
    let aggregator = world.names("aggregator").remove(0);
    // Its aggregator was deleted by hand.
    world.pods.remove(&aggregator);
    let remnants = &mut Remnants::default();
    assert_eq!(gone(&world, remnants, 0), (vec![], Some(Duration::from_secs(60))));
    assert_eq!(gone(&world, remnants, 59).0, [""; 0]);
    assert_eq!(gone(&world, remnants, 60).0, world.names("ddp-learner"));
    // The server died before the last pod was made.
    world.pods = whole.clone();
    let last = world.names("ddp-learner").remove(1);
    world.pods.remove(&last);
    let remnants = &mut Remnants::default();
    assert_eq!(gone(&world, remnants, 0).0, [""; 0]);
    let mut left = world.names("ddp-learner");
    left.insert(0, aggregator);
    assert_eq!(gone(&world, remnants, 61).0, left);
    // It was made in time after all.
    let remnants = &mut Remnants::default();
    gone(&world, remnants, 0);
    world.pods = whole;
    gone(&world, remnants, 30);
    assert_eq!(gone(&world, remnants, 61).0, [""; 0]);
}

#[test]
fn a_learner_that_was_whole_once_does_not_go_because_one_of_its_pods_is_drained() {
    let mut world = World::new(&job());
    world.nodes = vec![2];
    world.create(&json!(null), &json!({"replicas": 1, "gpus": 4}));
    let remnants = &mut Remnants::default();
    gone(&world, remnants, 0);
    let drained = world.names("ddp-learner").remove(1);
    world.pods.remove(&drained);
    gone(&world, remnants, 1);
    assert_eq!(gone(&world, remnants, 600).0, [""; 0]);
    let aggregator = world.names("aggregator").remove(0);
    world.pods.remove(&aggregator);
    gone(&world, remnants, 601);
    assert_eq!(gone(&world, remnants, 661).0, world.names("ddp-learner"), "nobody is theirs");
}

#[test]
fn an_aggregator_that_does_not_say_how_many_it_has_is_left_alone() {
    let mut world = World::new(&job());
    world.put("aggregator", "cartpole-aggregator-ddddd", json!({"phase": "Running"}));
    let remnants = &mut Remnants::default();
    gone(&world, remnants, 0);
    assert_eq!(gone(&world, remnants, 600).0, [""; 0]);
    let annotations: Value = json!({names::DDP_PODS: "1"});
    world
        .put("aggregator", "cartpole-aggregator-ddddd", json!({"phase": "Running"}))
        .metadata
        .annotations = serde_json::from_value(annotations).unwrap();
    gone(&world, remnants, 601);
    assert_eq!(gone(&world, remnants, 661).0, ["cartpole-aggregator-ddddd"]);
}
