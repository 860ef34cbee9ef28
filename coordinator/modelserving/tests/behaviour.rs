//! What a ModelServing does, told in short stories. The recorded cases tell the same at length.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "modelserving_conformance/cluster.rs"]
mod cluster;

use cluster::Cluster;
use muster_modelserving::api::{ModelServing, Status};
use muster_modelserving::naming::{REVISION, Shape};
use muster_modelserving::pod::{PodMutator, Slot};
use muster_modelserving::seen::PodGroupApi;
use muster_modelserving::step::{Failure, Kind, Step, Write};
use serde_json::{Value, json};

fn serving() -> Value {
    let pod = json!({"spec": {"containers": [{"name": "engine", "image": "engine:v1"}]}});
    json!({
        "metadata": {"name": "llm", "namespace": "serve", "uid": "u", "generation": 1},
        "spec": {
            "replicas": 2, "schedulerName": "volcano", "recoveryPolicy": "RoleRecreate",
            "template": {"roles": [{
                "name": "server", "replicas": 2, "workerReplicas": 1, "maxUnavailable": 1,
                "entryTemplate": pod, "workerTemplate": pod,
            }]},
        },
    })
}

fn started(serving: &Value) -> Cluster {
    started_as(serving, Shape::Kthena)
}

fn started_as(serving: &Value, shape: Shape) -> Cluster {
    let serving: ModelServing = serde_json::from_value(serving.clone()).unwrap();
    let mut cluster = Cluster::new(serving, PodGroupApi::Plain, true);
    cluster.shape = shape;
    cluster.start();
    cluster.settle();
    all_ready(&mut cluster);
    cluster.record = Default::default();
    cluster
}

fn all_ready(cluster: &mut Cluster) {
    let names: Vec<String> = cluster.pods.keys().cloned().collect();
    names.iter().for_each(|name| cluster.pod_is_ready(name));
    cluster.settle();
}

fn all_terminated(cluster: &mut Cluster) {
    let leaving = cluster.pods.iter().filter(|(_, it)| it.metadata.deletion_timestamp.is_some());
    let leaving: Vec<String> = leaving.map(|(name, _)| name.clone()).collect();
    leaving.iter().for_each(|name| cluster.pod_goes(name));
    cluster.settle();
}

fn respec(cluster: &mut Cluster, serving: &Value) {
    cluster.change_spec(serde_json::from_value(serving["spec"].clone()).unwrap());
    cluster.settle();
}

fn another_image(serving: &mut Value) {
    let role = &mut serving["spec"]["template"]["roles"][0];
    role["entryTemplate"]["spec"]["containers"][0]["image"] = "engine:v2".into();
}

fn status(cluster: &Cluster) -> Status {
    cluster.serving.as_ref().unwrap().status.clone().unwrap()
}

fn revision(cluster: &Cluster, pod: &str) -> String {
    cluster.pods[pod].metadata.labels.as_ref().unwrap()[REVISION].clone()
}

fn leaving(cluster: &Cluster) -> Vec<&str> {
    let pods = cluster.pods.iter();
    let leaving = pods.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
    leaving.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn everything_is_made_and_then_left_alone() {
    let mut cluster = started(&serving());
    assert_eq!((cluster.pods.len(), cluster.services.len(), cluster.pod_groups.len()), (8, 4, 2));
    assert_eq!(status(&cluster).available_replicas, 2);
    let plan = cluster.plan();
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    cluster.queue();
    cluster.settle();
    assert!(cluster.record.calls.is_empty(), "{:?}", cluster.record.calls);
}

#[test]
fn a_revision_that_somebody_who_died_has_left_is_removed() {
    let mut cluster = started(&serving());
    let kept: Vec<String> = cluster.revisions.keys().cloned().collect();
    let left = cluster.revisions[&kept[0]].clone();
    cluster.revisions.insert("llm-left".to_owned(), left);
    cluster.revisions.get_mut("llm-left").unwrap().metadata.name = Some("llm-left".to_owned());
    cluster.queue();
    cluster.settle();
    assert_eq!(cluster.revisions.keys().cloned().collect::<Vec<_>>(), kept);
}

/// A leader that starts while the old pods go sees a group in which all that is left of them is missing, and makes its pods anew.
#[test]
fn a_revision_is_not_removed_before_the_one_in_its_place_is_kept() {
    let mut changed = serving();
    changed["spec"]["replicas"] = 1.into();
    let mut cluster = started(&changed);
    another_image(&mut changed);
    let spec: muster_modelserving::api::Spec =
        serde_json::from_value(changed["spec"].clone()).unwrap();
    let new = muster_modelserving::revision::roles(&spec.template.roles);
    // Its pods are of the new revision already, which nobody has kept.
    let names: Vec<String> = cluster.pods.keys().cloned().collect();
    let hash = muster_modelserving::revision::role(&spec.template.roles[0]);
    for name in names {
        cluster.change_pod(&name, |pod| {
            let labels = pod.metadata.labels.get_or_insert_default();
            labels.insert(REVISION.to_owned(), new.clone());
            labels.insert(muster_modelserving::naming::ROLE_HASH.to_owned(), hash.clone());
        });
    }
    cluster.serving.as_mut().unwrap().spec = spec;
    cluster.start();
    cluster.settle();
    cluster.queue();
    cluster.settle();
    let kept: Vec<&String> = cluster.revisions.keys().collect();
    assert_eq!(kept, [&format!("llm-{new}")], "{:?}", cluster.record.calls);
}

#[test]
fn who_begins_while_the_pods_of_a_rollout_go_makes_each_new_pod_once() {
    let mut changed = serving();
    changed["spec"]["replicas"] = 1.into();
    let mut cluster = started(&changed);
    another_image(&mut changed);
    respec(&mut cluster, &changed);
    assert_eq!(leaving(&cluster).len(), 4, "the old group goes");
    // Of the last instance one pod is still there.
    for pod in ["llm-0-server-0-0", "llm-0-server-0-1", "llm-0-server-1-0"] {
        cluster.pod_goes(pod);
    }
    cluster.start();
    cluster.record = Default::default();
    cluster.settle();
    all_terminated(&mut cluster);
    cluster.wait(std::time::Duration::from_secs(2));
    cluster.settle();
    all_terminated(&mut cluster);
    let made = |name: &str| {
        let calls = cluster.record.calls.iter();
        calls.filter(|call| **call == format!("create Pod {name}")).count()
    };
    for pod in cluster.pods.keys() {
        assert_eq!(made(pod), 1, "{pod}: {:#?}", cluster.record.calls);
    }
    assert_eq!(cluster.pods.len(), 4);
}

#[test]
fn who_begins_while_an_instance_goes_makes_each_of_its_pods_once() {
    let mut cluster = started(&serving());
    // Its entry was lost, and the worker that goes with it is on its way out.
    cluster.pod_goes("llm-0-server-1-0");
    cluster.settle();
    assert_eq!(leaving(&cluster), ["llm-0-server-1-1"]);
    cluster.start();
    cluster.record = Default::default();
    cluster.settle();
    all_terminated(&mut cluster);
    cluster.wait(std::time::Duration::from_secs(2));
    cluster.settle();
    all_terminated(&mut cluster);
    let made: Vec<&String> =
        cluster.record.calls.iter().filter(|call| call.starts_with("create Pod")).collect();
    assert_eq!(made, ["create Pod llm-0-server-1-0", "create Pod llm-0-server-1-1"]);
    // One that a person deletes then is a loss as ever.
    all_ready(&mut cluster);
    cluster.pod_goes("llm-0-server-1-1");
    cluster.settle();
    assert_eq!(leaving(&cluster), ["llm-0-server-1-0"]);
}

#[test]
fn without_groups_there_is_a_status() {
    let mut none = serving();
    none["spec"]["replicas"] = 0.into();
    let cluster = started(&none);
    let status = status(&cluster);
    assert_eq!((status.replicas, status.observed_generation), (0, 1));
    assert_eq!(status.conditions[0].kind, "Available");
    assert!(cluster.record.errors.is_empty());
}

#[test]
fn the_other_shape_has_one_pod_per_instance_and_no_services() {
    let mut flat = serving();
    flat["spec"]["replicas"] = 1.into();
    flat["spec"]["template"]["roles"][0]["workerReplicas"] = 0.into();
    let mut cluster = started_as(&flat, Shape::Short);
    let names = ["llm-server-0", "llm-server-1"];
    assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), names);
    assert!(cluster.services.is_empty());
    let owner = &cluster.pods["llm-server-0"].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(owner.api_version, "workload.kthena.io/v1alpha1");
    assert_eq!(status(&cluster).available_replicas, 1);

    cluster.pod_goes("llm-server-0");
    cluster.settle();
    assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), names);
    assert_eq!(status(&cluster).available_replicas, 0);
}

#[test]
fn what_is_on_its_way_out_is_not_made_anew() {
    let mut cluster = started(&serving());
    let metadata = &mut cluster.serving.as_mut().unwrap().metadata;
    let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
    metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    let names: Vec<String> = cluster.pods.keys().cloned().collect();
    names.iter().for_each(|name| cluster.pod_goes(name));
    cluster.settle();
    assert!(cluster.pods.is_empty());
}

#[test]
fn a_lost_pod_takes_its_instance_with_it() {
    let mut cluster = started(&serving());
    cluster.pod_goes("llm-0-server-1-1");
    cluster.settle();
    assert_eq!(leaving(&cluster), ["llm-0-server-1-0"]);
    assert!(!cluster.services.contains_key("llm-0-server-1-0"));
    all_terminated(&mut cluster);
    assert_eq!((cluster.pods.len(), cluster.services.len()), (8, 4));
    assert_eq!(status(&cluster).available_replicas, 1);
}

#[test]
fn a_lost_pod_takes_its_group_with_it_where_that_is_asked_for() {
    let mut whole = serving();
    whole["spec"]["recoveryPolicy"] = "ServingGroupRecreate".into();
    let mut cluster = started(&whole);
    cluster.pod_goes("llm-0-server-1-1");
    cluster.settle();
    assert_eq!(leaving(&cluster).len(), 3);
    assert!(!cluster.pod_groups.contains_key("llm-0"));
    all_terminated(&mut cluster);
    assert_eq!((cluster.pods.len(), cluster.pod_groups.len()), (8, 2));
}

#[test]
fn a_partition_keeps_the_first_groups_as_they_were() {
    let mut kept = serving();
    kept["spec"]["rolloutStrategy"] = json!({"type": "ServingGroupRollingUpdate",
        "rollingUpdateConfiguration": {"maxUnavailable": 1, "partition": "50%"}});
    let mut cluster = started(&kept);
    let old = revision(&cluster, "llm-0-server-0-0");
    another_image(&mut kept);
    respec(&mut cluster, &kept);
    all_terminated(&mut cluster);
    all_ready(&mut cluster);
    assert_eq!(revision(&cluster, "llm-0-server-0-0"), old);
    assert_ne!(revision(&cluster, "llm-1-server-0-0"), old);

    // A pod that it loses comes back as it was.
    cluster.pod_goes("llm-0-server-0-0");
    cluster.settle();
    all_terminated(&mut cluster);
    assert_eq!(revision(&cluster, "llm-0-server-0-0"), old);
    let image = cluster.pods["llm-0-server-0-0"].spec.as_ref().unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("engine:v1"));
}

/// Writes on a pod how many workers its group's roles have.
struct Workers;

impl PodMutator for Workers {
    fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String> {
        pod["workers"] = slot.roles.iter().map(|role| role.worker_replicas).collect();
        Ok(())
    }
}

#[test]
fn a_pod_knows_the_roles_that_its_group_is_made_from() {
    let mut kept = serving();
    kept["spec"]["recoveryPolicy"] = "None".into();
    kept["spec"]["rolloutStrategy"] = json!({"type": "ServingGroupRollingUpdate",
        "rollingUpdateConfiguration": {"maxUnavailable": 1, "partition": 1}});
    let mut cluster = started(&kept);
    kept["spec"]["template"]["roles"][0]["workerReplicas"] = 3.into();
    respec(&mut cluster, &kept);
    all_terminated(&mut cluster);
    for (group, workers) in [("llm-0", 1), ("llm-1", 3)] {
        let name = format!("{group}-server-0-0");
        cluster.pod_goes(&name);
        cluster.settle();
        let serving = cluster.serving.as_ref().unwrap();
        let (seen, now) = (cluster.seen(serving), jiff::Timestamp::UNIX_EPOCH);
        let plan = cluster.machine.plan(serving, &seen, &Workers, now);
        let made = plan.steps.iter().find_map(|step| match &step.write {
            Some(Write::Create(object)) if object.name == name => Some(object.body.clone()),
            _ => None,
        });
        assert_eq!(made.unwrap()["workers"], json!([workers]), "{name}");
    }
}

#[test]
fn an_update_that_is_taken_back_half_way_leaves_nothing_behind() {
    for strategy in ["ServingGroupRollingUpdate", "RoleRollingUpdate"] {
        let mut old = serving();
        old["spec"]["rolloutStrategy"] = json!({ "type": strategy });
        let mut cluster = started(&old);
        let before: Vec<String> = cluster.pods.keys().cloned().collect();
        let mut new = old.clone();
        another_image(&mut new);
        new["spec"]["template"]["roles"][0]["workerReplicas"] = 2.into();
        respec(&mut cluster, &new);
        respec(&mut cluster, &old);
        for _ in 0..10 {
            all_terminated(&mut cluster);
            all_ready(&mut cluster);
        }
        assert_eq!(cluster.pods.keys().cloned().collect::<Vec<_>>(), before, "{strategy}");
        assert!(cluster.plan().steps.is_empty());
        assert_eq!(status(&cluster).available_replicas, 2, "{strategy}");
    }
}

#[test]
fn a_refused_deletion_leaves_the_group_as_it_was() {
    let mut fewer = serving();
    let mut cluster = started(&fewer);
    fewer["spec"]["replicas"] = 1.into();
    cluster.serving.as_mut().unwrap().spec = serde_json::from_value(fewer["spec"].clone()).unwrap();
    let plan = cluster.plan();
    let refused =
        |step: &&muster_modelserving::step::Step| matches!(step.write, Some(Write::DeletePods(_)));
    for step in plan.steps.iter().take_while(|step| !refused(step)) {
        cluster.machine.done(step);
    }
    let step = plan.steps.iter().find(refused).unwrap();
    assert_eq!(step.failure, Failure::Stop);
    cluster.machine.failed(step);
    let states: Vec<String> = {
        let groups = cluster.machine.store().groups().iter();
        groups.map(|group| format!("{:?}", group.state)).collect()
    };
    assert_eq!(states, ["Running", "Running"]);
}

#[test]
fn a_plan_that_is_dropped_half_way_is_made_up_for() {
    let mut fewer = serving();
    let mut cluster = started(&fewer);
    fewer["spec"]["replicas"] = 1.into();
    cluster.serving.as_mut().unwrap().spec = serde_json::from_value(fewer["spec"].clone()).unwrap();
    let plan = cluster.plan();
    cluster.machine.done(&plan.steps[0]);
    cluster.queue();
    cluster.settle();
    assert_eq!(leaving(&cluster).len(), 4);
    all_terminated(&mut cluster);
    assert_eq!((cluster.pods.len(), status(&cluster).replicas), (4, 1));
}

#[test]
fn after_a_restart_a_group_with_an_old_pod_is_an_old_group() {
    let mut changed = serving();
    changed["spec"]["replicas"] = 1.into();
    let mut cluster = started(&changed);
    let old = revision(&cluster, "llm-0-server-0-0");
    another_image(&mut changed);
    cluster.serving.as_mut().unwrap().spec =
        serde_json::from_value(changed["spec"].clone()).unwrap();
    let new = muster_modelserving::revision::roles(
        &cluster.serving.as_ref().unwrap().spec.template.roles,
    );
    cluster.change_pod("llm-0-server-0-0", |pod| {
        pod.metadata.labels.get_or_insert_default().insert(REVISION.to_owned(), new.clone());
    });
    cluster.start();
    assert_eq!(&*cluster.machine.store().groups()[0].revision, old);
}

#[test]
fn a_number_that_is_a_typing_error_does_not_fill_the_memory() {
    let mut many = serving();
    many["spec"]["replicas"] = 2_000_000_000.into();
    many["spec"]["template"]["roles"][0]["workerReplicas"] = 2_000_000_000.into();
    let serving: ModelServing = serde_json::from_value(many).unwrap();
    let cluster = Cluster::new(serving, PodGroupApi::Plain, true);
    let plan = cluster.plan();
    assert!(plan.again && plan.steps.len() < 3000, "{}", plan.steps.len());
}

#[test]
fn a_pod_that_stays_ready_asks_for_nothing() {
    let mut cluster = started(&serving());
    cluster.pod_is_ready("llm-0-server-0-0");
    assert_eq!(cluster.settle(), 0, "no plan is made");
}

#[test]
fn pods_of_a_group_are_made_one_right_after_the_other() {
    let mut flat = serving();
    flat["spec"]["replicas"] = 1.into();
    flat["spec"]["template"]["roles"][0]["replicas"] = 5.into();
    flat["spec"]["template"]["roles"][0]["workerReplicas"] = 0.into();
    let serving: ModelServing = serde_json::from_value(flat).unwrap();
    let plan = Cluster::new(serving, PodGroupApi::Plain, true).plan();
    let makes_pod =
        |step: &&Step| matches!(&step.write, Some(Write::Create(it)) if it.kind == Kind::Pod);
    let first = plan.steps.iter().skip_while(|step| !makes_pod(step));
    assert_eq!(first.take_while(makes_pod).count(), 5);
}

#[test]
fn what_cannot_be_made_is_not_tried_again_at_once() {
    let mut many = serving();
    many["spec"]["replicas"] = 3000.into();
    many["spec"]["plugins"] = json!([{"name": "nobody-knows-it"}]);
    let serving: ModelServing = serde_json::from_value(many).unwrap();
    let plan = Cluster::new(serving, PodGroupApi::Plain, true).plan();
    assert!(plan.error.is_some() && !plan.again, "{:?}", plan.error);
}

#[test]
fn a_look_at_thirty_two_pods_takes_no_time() {
    let mut large = serving();
    large["spec"]["replicas"] = 8.into();
    let cluster = started(&large);
    assert_eq!(cluster.pods.len(), 32);
    #[allow(clippy::disallowed_methods, reason = "it is about time")]
    let start = std::time::Instant::now();
    for _ in 0..100 {
        assert!(cluster.plan().steps.is_empty());
    }
    let each = start.elapsed() / 100;
    println!("a plan for 32 pods: {each:?}");
    assert!(each.as_millis() < 20, "{each:?}, and this is without optimisation");
}
