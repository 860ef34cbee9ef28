//! Kinds that KAI does not know: ModelServings of both shapes, and DIJobs.

use muster_podgrouper::Class;
use serde_json::{Value, json};

use crate::build::{grouped, object, pod, spec_and_part};
use crate::definitions;

fn serving(spec: Value) -> Value {
    object("workload.serving.volcano.sh/v1alpha1", "ModelServing", "llm", spec)
}

fn role(name: &str, replicas: i64, workers: i64) -> Value {
    let template = json!({"spec": {"containers": [{"name": "engine", "image": "i"}]}});
    json!({"name": name, "replicas": replicas, "workerReplicas": workers,
        "entryTemplate": template, "workerTemplate": template})
}

fn of_role(role: &str, id: &str) -> Value {
    json!({"modelserving.volcano.sh/name": "llm", "modelserving.volcano.sh/group-name": "llm-1",
        "modelserving.volcano.sh/role": role, "modelserving.volcano.sh/role-id": id})
}

#[test]
fn a_serving_group_has_a_part_for_each_role_and_one_for_each_instance_of_several_pods() {
    let roles = json!([role("prefill", 2, 3), role("decode", 4, 0)]);
    let gang = json!({"minRoleReplicas": {"prefill": 1, "decode": 2}});
    let llm = serving(json!({"template": {"roles": roles, "gangPolicy": gang}}));
    let member = pod("llm-1-prefill-0-2", of_role("prefill", "prefill-0"), Some(&llm));
    let (spec, part) = spec_and_part(&[member.clone(), llm.clone()]);
    assert_eq!(part.as_deref(), Some("prefill-0"));
    assert_eq!(spec["minSubGroup"], 2);
    assert_eq!(spec["priorityClassName"], "inference");
    assert_eq!(
        spec["subGroups"],
        json!([
            {"name": "prefill", "minSubGroup": 1},
            {"name": "prefill-0", "minMember": 4, "parent": "prefill"},
            {"name": "prefill-1", "minMember": 4, "parent": "prefill"},
            {"name": "decode", "minMember": 2},
        ])
    );
    let group = grouped(&[member, llm.clone()]).unwrap().pod_group.unwrap();
    assert_eq!(group["metadata"]["name"], "pg-llm-uid-llm-group-1");
    assert_eq!(definitions::refused("PodGroup", &group, None), []);
    let (_, part) = spec_and_part(&[pod("d", of_role("decode", "decode-3"), Some(&llm)), llm]);
    assert_eq!(part.as_deref(), Some("decode"));
}

#[test]
fn instances_that_still_are_keep_their_part_and_all_pods_agree() {
    let llm = serving(json!({"template": {"roles": [role("prefill", 1, 1)]}}));
    let first = pod("p0", of_role("prefill", "prefill-0"), Some(&llm));
    let late = pod("p5", of_role("prefill", "prefill-5"), Some(&llm));
    let (one, part) = spec_and_part(&[late.clone(), first.clone(), llm.clone()]);
    let (other, _) = spec_and_part(&[first, late, llm]);
    assert_eq!(part.as_deref(), Some("prefill-5"));
    assert_eq!(one, other);
}

#[test]
fn the_short_form_counts_its_pods_by_role() {
    let template = json!({"spec": {"containers": [{"name": "engine", "image": "i"}]}});
    let roles = json!([{"name": "worker", "replicas": 2, "template": template}]);
    let llm = object("workload.kthena.io/v1alpha1", "ModelServing", "llm", json!({"roles": roles}));
    let member = pod("llm-worker-0", of_role("worker", "worker-0"), Some(&llm));
    let (spec, part) = spec_and_part(&[member, llm]);
    assert_eq!(part.as_deref(), Some("worker"));
    assert_eq!(spec["subGroups"], json!([{"name": "worker", "minMember": 2}]));
}

#[test]
fn roles_whose_parts_would_have_one_name_are_refused() {
    let llm = serving(json!({"template": {"roles": [role("a", 1, 1), role("a-0", 1, 0)]}}));
    let error = grouped(&[pod("p", of_role("a", "a-0"), Some(&llm)), llm]).unwrap_err();
    assert_eq!(error.class, Class::DuplicateSubGroup);
    assert!(error.to_string().contains("rename"));
}

fn of_job(kind: &str) -> Value {
    json!({"dijob-name": "cart", "replica-type": kind})
}

#[test]
fn a_coordinator_does_not_wait_for_what_it_has_yet_to_ask_for() {
    let job = object("diengine.opendilab.org/v1alpha1", "DIJob", "cart", json!({}));
    let (spec, part) =
        spec_and_part(&[pod("cart-coordinator", of_job("coordinator"), Some(&job)), job]);
    assert_eq!(part.as_deref(), Some("coordinator"));
    assert_eq!(spec["minMember"], 1);
    assert_eq!(
        spec["subGroups"],
        json!([{"name": "coordinator", "minMember": 1}, {"name": "learner", "minMember": 0},
            {"name": "collector", "minMember": 0}])
    );
}

#[test]
fn learners_are_placed_together_and_collectors_one_by_one() {
    let job = object("diengine.opendilab.org/v1alpha1", "DIJob", "cart", json!({}));
    let one = |name: &str, kind: &str| pod(name, of_job(kind), Some(&job));
    let mut gone = one("l3", "learner");
    gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let all =
        [one("l1", "learner"), one("l2", "ddp-learner"), gone, one("c1", "collector"), job.clone()];
    let (spec, part) = spec_and_part(&all);
    assert_eq!((spec["minMember"].clone(), part.as_deref()), (json!(3), Some("learner")));
    let stray = pod("x", of_job("judge"), Some(&job));
    assert_eq!(grouped(&[stray, job]).unwrap_err().class, Class::DiJobInvalid);
}

#[test]
fn a_train_job_is_grouped_by_its_job_set_and_its_labels_come_along() {
    let mut train = object("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", json!({}));
    train["metadata"]["labels"] = json!({"kai.scheduler/queue": "research"});
    let jobs =
        json!({"replicatedJobs": [{"name": "node", "template": {"spec": {"parallelism": 4}}}]});
    let mut set = object("jobset.x-k8s.io/v1alpha2", "JobSet", "t", jobs);
    set["metadata"]["ownerReferences"] = json!([crate::build::reference(&train)]);
    let mut job = object("batch/v1", "Job", "t-node-0", json!({}));
    job["metadata"]["ownerReferences"] = json!([crate::build::reference(&set)]);
    let labels = json!({"jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/job-index": "0"});
    let (spec, part) = spec_and_part(&[pod("t-node-0-0", labels, Some(&job)), job, set, train]);
    assert_eq!(part.as_deref(), Some("node-replica-0"));
    assert_eq!(spec["queue"], "research");
    assert_eq!(spec["minSubGroup"], 1);
}
