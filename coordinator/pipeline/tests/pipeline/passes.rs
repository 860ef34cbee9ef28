//! What passes decide from one to the next.

use std::time::Duration;

use muster_pipeline::plugin::Context;
use muster_pipeline::reconcile::Pass;
use muster_pipeline::{Registry, Runtimes, Settings};
use serde_json::{Value, json};

use crate::given::{Given, NOW, job, of_kind, pod, runtime, trains};

fn torch() -> Given {
    Given::of([runtime(json!({"torch": {}}), json!([trains("node")]))])
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|o| o["kind"].as_str().unwrap()).collect()
}

#[test]
fn the_first_pass_keeps_the_runtime_and_makes_the_jobset_last() {
    let mpi = json!({"mpi": {}});
    let given = Given::of([runtime(mpi, json!([trains("launcher"), trains("node")]))]);
    let outcome = given.pass(&job(json!({"trainer": {}})));
    assert_eq!(kinds(&outcome.apply), ["ConfigMap", "ConfigMap", "Secret", "JobSet"]);
    assert_eq!(outcome.apply[0]["metadata"]["name"], "job-runtime-snapshot");
    assert_eq!((outcome.status, outcome.error), (None, None));
}

#[test]
fn a_pass_over_what_a_pass_has_made_makes_nothing() {
    let mut given = torch();
    let outcome = given.pass(&job(json!({"trainer": {}})));
    given.apply(&outcome);
    assert_eq!(given.pass(&job(json!({"trainer": {}}))).apply, Vec::<Value>::new());
}

#[test]
fn a_runtime_that_changes_or_goes_does_not_reach_the_job() {
    let mut given = torch();
    let outcome = given.pass(&job(json!({"suspend": true, "trainer": {}})));
    given.apply(&outcome);
    given.objects.retain(|o| o["kind"] != "ClusterTrainingRuntime");
    let again = given.pass(&job(json!({"suspend": true, "trainer": {}})));
    assert_eq!(of_kind(&again, "JobSet"), of_kind(&outcome, "JobSet"));
}

#[test]
fn keys_are_made_once() {
    let mpi = runtime(json!({"mpi": {}}), json!([trains("launcher"), trains("node")]));
    let mut given = Given::of([mpi]);
    let outcome = given.pass(&job(json!({"trainer": {}})));
    assert_eq!(of_kind(&outcome, "Secret").len(), 1);
    given.apply(&outcome);
    assert_eq!(kinds(&given.pass(&job(json!({"trainer": {}}))).apply), ["ConfigMap"]);
}

#[test]
fn the_snapshot_and_keys_are_created_and_the_rest_is_applied() {
    let mpi = runtime(json!({"mpi": {}}), json!([trains("launcher"), trains("node")]));
    let job = job(json!({"trainer": {}}));
    let outcome = Given::of([mpi]).pass(&job);
    let typed = serde_json::from_value(job).unwrap();
    let registry = Registry::standard();
    let once = outcome.apply.iter().map(|o| registry.is_made_once(&typed, o));
    assert_eq!(once.collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn an_unknown_kind_of_runtime_fails_the_job_for_good() {
    let mut job = job(json!({}));
    job["spec"]["runtimeRef"] =
        json!({"name": "rt", "kind": "Slurm", "apiGroup": "trainer.kubeflow.org"});
    let outcome = torch().pass(&job);
    let failed = &outcome.status.unwrap().conditions[0];
    assert_eq!(
        (failed.type_.as_str(), failed.reason.as_str()),
        ("Failed", "TrainingRuntimeNotSupported")
    );
    assert_eq!((outcome.apply, outcome.error), (Vec::new(), None));
}

#[test]
fn a_runtime_that_is_not_there_is_told_and_tried_again() {
    let outcome = Given::default().pass(&job(json!({})));
    assert_eq!(outcome.events[0].reason, "TrainJobResourcesCreationFailed");
    assert!(outcome.error.unwrap().contains("\"rt\" not found"));
    assert_eq!(outcome.status, None);
}

#[test]
fn a_write_that_fails_is_told_and_the_status_is_still_kept() {
    let given = torch();
    let job = serde_json::from_value(job(json!({"suspend": true}))).unwrap();
    let (settings, keys) = (Settings::default(), muster_pipeline::keys::Keys::default());
    let context = Context { cluster: &given, settings: &settings, keys: &keys };
    let (registry, runtimes) = (Registry::standard(), Runtimes::default());
    let pass = Pass {
        job: &job,
        context,
        registry: &registry,
        runtimes: &runtimes,
        now: NOW.parse().unwrap(),
    };
    let outcome = pass.settle(&pass.plan(), Some("conflict"));
    assert_eq!(outcome.events.len(), 1);
    assert!(outcome.error.as_ref().unwrap().starts_with("conflict\n"));
    let patch = outcome.status_patch(&job).unwrap();
    assert_eq!(patch["status"]["conditions"][0]["reason"], "Suspended");
}

#[test]
fn a_long_error_is_cut_in_events_only() {
    let long = "é".repeat(2000);
    let event = muster_pipeline::event::Event::creation_failed(&long);
    assert_eq!(event.note.chars().filter(|c| *c == 'é').count(), 950);
    assert!(event.note.ends_with(" ..."));
}

#[test]
fn a_deadline_counts_from_the_last_resumption() {
    let mut given = torch();
    let mut job = job(json!({"activeDeadlineSeconds": 600}));
    given.apply(&given.pass(&job));
    assert_eq!(given.pass(&job).requeue, Some(Duration::from_secs(600 - 245)));
    let late = given.pass_with(&job, &Registry::standard(), "2026-01-02T03:10:01Z");
    assert!(late.delete_job_set && late.requeue.is_none());
    job["status"] = json!({"conditions": [{"type": "Suspended", "status": "False", "reason": "Resumed",
        "message": "m", "lastTransitionTime": "2026-01-02T03:04:00Z"}]});
    assert_eq!(given.pass(&job).requeue, Some(Duration::from_secs(595)));
}

#[test]
fn a_job_of_another_controller_is_left_alone() {
    let outcome = torch().pass(&job(json!({"managedBy": "kueue.x-k8s.io/multikueue"})));
    assert_eq!(outcome, muster_pipeline::Outcome::default());
}

#[test]
fn a_finished_job_makes_nothing_and_needs_no_jobset() {
    let mut job = job(json!({}));
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True", "reason": "r",
        "message": "m", "lastTransitionTime": NOW}]});
    assert_eq!(torch().pass(&job), muster_pipeline::Outcome::default());
}

#[test]
fn the_status_patch_names_only_what_changes() {
    let mut given = torch();
    let mut job = job(json!({}));
    job["status"] = json!({"trainerStatus": {"progressPercentage": 4, "lastUpdatedTime": NOW}});
    given.apply(&given.pass(&job));
    given.objects.iter_mut().find(|o| o["kind"] == "JobSet").unwrap()["status"] =
        json!({"replicatedJobsStatus": [{"name": "node", "active": 1}]});
    let outcome = given.pass(&job);
    let typed = serde_json::from_value(job).unwrap();
    let jobs = json!([{"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]);
    assert_eq!(outcome.status_patch(&typed), Some(json!({"status": {"jobsStatus": jobs}})));
    assert!(outcome.status.unwrap().trainer_status.is_some());
}

#[test]
fn a_job_of_no_replicas_has_one_as_in_the_original() {
    let mut node = trains("node");
    node["replicas"] = json!(0);
    node["template"]["metadata"] = json!({});
    let policy = json!({"mpi": {"mpiImplementation": "OpenMPI", "numProcPerNode": 2,
        "sshAuthMountPath": "/root/.ssh", "runLauncherAsNode": false}});
    let given = Given::of([runtime(policy, json!([node, trains("launcher")]))]);
    let outcome = given.pass(&job(json!({"trainer": {"numNodes": 1}})));
    let hosts = of_kind(&outcome, "ConfigMap");
    let hosts = hosts.iter().find(|map| map["data"]["hostfile"].is_string()).unwrap();
    assert_eq!(hosts["data"]["hostfile"], "job-node-0-0.job slots=2\n");
    let set = of_kind(&outcome, "JobSet")[0];
    assert!(set["spec"]["replicatedJobs"][0]["replicas"].is_null(), "{set}");
}

#[test]
fn torch_tells_its_nodes_who_they_are() {
    let outcome = torch().pass(&job(json!({"trainer": {"numNodes": 2}})));
    let env = pod(&outcome, 0)["spec"]["containers"][0]["env"].as_array().unwrap();
    let names: Vec<&str> = env.iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"]
    );
}
