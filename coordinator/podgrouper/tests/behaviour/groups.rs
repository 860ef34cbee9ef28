//! What holds of every kind: who is left alone, queues, what is kept, what is not read yet.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use muster_podgrouper::group::{Action, Asked, Skip, ask};
use muster_podgrouper::{Class, Config, Given, Key, Object, Objects, Refusal, group, kinds};
use serde_json::{Value, json};

use crate::build::{grouped, grouped_by, object, pod, reference};

#[test]
fn a_second_pass_over_its_own_result_changes_nothing() {
    let set = object("apps/v1", "StatefulSet", "web", json!({}));
    let mut member = pod("web-0", json!({"user": "kim"}), Some(&set));
    let first = grouped(&[member.clone(), set.clone()]).unwrap();
    assert_eq!(first.action, Action::Created);
    let written = first.pod_group.unwrap();
    let marks = first.pod.unwrap();
    member["metadata"]["annotations"] = json!(marks.annotations);
    let second = grouped(&[member, set, written.clone()]).unwrap();
    assert_eq!((second.action, second.pod), (Action::Unchanged, None));
    assert_eq!(second.pod_group.unwrap(), written);
}

#[test]
fn the_queue_is_the_owners_the_pods_the_projects_the_namespaces_or_the_default() {
    let owner = |labels: Value| {
        let mut owner = object("x.io/v1", "Thing", "t", json!({}));
        owner["metadata"]["labels"] = labels;
        owner
    };
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "a", "labels": {"kai.scheduler/queue": "of-space"}}});
    let queue = |owner: Value, labels: Value, more: &[Value], config: &Config| {
        let all = [&[pod("p", labels, Some(&owner)), owner][..], more].concat();
        grouped_by(&all, config).unwrap().pod_group.unwrap()["spec"]["queue"].clone()
    };
    let config = Config::default();
    let label = json!({"kai.scheduler/queue": "of-owner"});
    assert_eq!(queue(owner(label), json!({"kai.scheduler/queue": "x"}), &[], &config), "of-owner");
    let on_pod = json!({"kai.scheduler/queue": "of-pod"});
    assert_eq!(queue(owner(json!({})), on_pod, from_ref(&space), &config), "of-pod");
    let project = json!({"project": "p", "kai.scheduler/node-pool": "fast"});
    assert_eq!(queue(owner(json!({})), project, from_ref(&space), &config), "p-fast");
    assert_eq!(queue(owner(json!({})), json!({}), from_ref(&space), &config), "of-space");
    let off = Config { namespace_queues: false, default_queue: "all".to_owned(), ..config };
    assert_eq!(queue(owner(json!({})), json!({}), &[space], &off), "all");
}

#[test]
fn a_priority_class_that_does_not_exist_is_remarked_where_it_is_named() {
    let remarks = |on_owner: &str, on_pod: &str| {
        let mut owner = object("x.io/v1", "Thing", "t", json!({}));
        owner["metadata"]["labels"] = json!({"priorityClassName": on_owner});
        let member = pod("p", json!({"priorityClassName": on_pod}), Some(&owner));
        let mut class = object("scheduling.k8s.io/v1", "PriorityClass", "there", json!({}));
        class["metadata"].as_object_mut().unwrap().remove("namespace");
        let given = Given::new([member.clone(), owner, class].map(Object::new));
        match ask(&Object::new(member), &given, &Config::default()).unwrap() {
            Asked::Group(draft) => draft.remarks,
            Asked::Nothing(skip) => panic!("{skip:?}"),
        }
    };
    assert_eq!(remarks("there", ""), [""; 0]);
    assert_eq!(
        remarks("nobody", "there"),
        [
            "Thing a/t: metadata.labels[priorityClassName]: there is no PriorityClass nobody, and the group gets train; \
          create the class, or name another"
        ]
    );
}

#[test]
fn groups_of_other_dialects_are_obeyed() {
    let mut volcano = pod("p", json!({}), None);
    volcano["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "g"});
    let coscheduling = pod("p", json!({"scheduling.x-k8s.io/pod-group": "g"}), None);
    for pod in [volcano, coscheduling] {
        let outcome = grouped(&[pod]).unwrap();
        assert_eq!(outcome.action, Action::Skipped(Skip::Foreign));
        assert_eq!((outcome.pod_group, outcome.pod), (None, None));
    }
}

#[test]
fn a_pod_out_of_a_list_has_the_same_group() {
    let whole = pod("p", json!({}), None);
    let mut listed = whole.clone();
    listed.as_object_mut().unwrap().retain(|key, _| key != "apiVersion" && key != "kind");
    assert_eq!(grouped(&[listed]).unwrap(), grouped(&[whole]).unwrap());
}

#[test]
fn a_circle_of_owners_ends() {
    let mut one = object("x.io/v1", "Thing", "one", json!({}));
    let mut two = object("x.io/v1", "Thing", "two", json!({}));
    one["metadata"]["ownerReferences"] = json!([reference(&two)]);
    two["metadata"]["ownerReferences"] = json!([reference(&one)]);
    let error = grouped(&[pod("p", json!({}), Some(&one)), one, two]).unwrap_err();
    assert_eq!(error.class, Class::OwnerLoop);
}

#[test]
fn counts_that_no_group_can_say_are_refused_and_bounded() {
    let job = |spec: Value| object("kubeflow.org/v1", "TFJob", "t", spec);
    let many =
        job(json!({"tfReplicaSpecs": {"Worker": {"replicas": i64::MAX}, "PS": {"replicas": 5}}}));
    let error = grouped(&[pod("p", json!({}), Some(&many)), many]).unwrap_err();
    assert_eq!(error.class, Class::NumberTooLarge);
    let jobs = json!({"replicatedJobs": [{"name": "w", "replicas": 2_000_000_000}]});
    let set = object("jobset.x-k8s.io/v1alpha2", "JobSet", "s", jobs);
    let labels =
        json!({"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "0"});
    let error = grouped(&[pod("p", labels, Some(&set)), set]).unwrap_err();
    assert_eq!(error.class, Class::NumberTooLarge);
}

#[test]
fn no_group_of_leader_and_workers_asks_for_more_pods_than_there_are() {
    for (size, segment) in [(3, 2), (5, 2), (4, 3), (4, 2), (9, 4), (2, 2)] {
        for policy in ["LeaderWorker", "LeaderExcluded"] {
            let spec = json!({"leaderWorkerTemplate": {"size": size,
                "subGroupPolicy": {"subGroupSize": segment, "subGroupPolicyType": policy}}});
            let set = object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", spec);
            let labels = json!({"leaderworkerset.sigs.k8s.io/worker-index": "0"});
            let Ok(outcome) = grouped(&[pod("l-0", labels, Some(&set)), set]) else {
                assert_ne!((size - 1) % segment, 0, "{size}/{segment} {policy}");
                continue;
            };
            let spec = outcome.pod_group.unwrap()["spec"].take();
            let parts = spec["subGroups"].as_array().unwrap();
            let pods: i64 = parts.iter().filter_map(|part| part["minMember"].as_i64()).sum();
            assert_eq!(pods, size, "{size}/{segment} {policy}: {parts:?}");
        }
    }
}

#[test]
fn pods_of_a_set_that_became_a_serving_wait_for_each_other_whatever_its_start_policy() {
    let spec = |policy: &str| json!({"startupPolicy": policy, "leaderWorkerTemplate": {"size": 3}});
    for policy in ["LeaderCreated", "LeaderReady"] {
        let set = object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", spec(policy));
        let mut serving =
            object("workload.serving.volcano.sh/v1alpha1", "ModelServing", "l", json!({}));
        serving["metadata"]["ownerReferences"] = json!([reference(&set)]);
        for (worker, part) in [("0", "leader"), ("2", "workers")] {
            let labels = json!({"leaderworkerset.sigs.k8s.io/worker-index": worker,
                "leaderworkerset.sigs.k8s.io/group-index": "1"});
            let member = pod("l-1", labels, Some(&serving));
            let outcome = grouped(&[member, serving.clone(), set.clone()]).unwrap();
            let group = outcome.pod_group.unwrap();
            assert_eq!(group["spec"]["minMember"], 3, "{policy} {worker}");
            assert!(group["metadata"]["name"].as_str().unwrap().ends_with("-group-1"));
            let marks = outcome.pod.unwrap().labels;
            assert!(marks.values().any(|value| value == part), "{marks:?}");
        }
    }
}

/// Knows only what was read before.
struct Reader {
    all: Given,
    read: BTreeSet<Key>,
}

impl Objects for Reader {
    fn get(&self, key: &Key) -> Result<Arc<Object>, Refusal> {
        if self.read.contains(key) { self.all.get(key) } else { Err(Refusal::Unread) }
    }

    fn pods(&self, namespace: &str, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, Refusal> {
        self.all.pods(namespace, labels)
    }

    fn pod_groups(&self, namespace: &str, prefix: &str) -> Result<Vec<Arc<Object>>, Refusal> {
        self.all.pod_groups(namespace, prefix)
    }
}

#[test]
fn an_edge_that_reads_what_it_is_asked_for_comes_to_the_same_end() {
    let deployment = object("apps/v1", "Deployment", "web", json!({}));
    let mut set = object("apps/v1", "ReplicaSet", "web-1", json!({}));
    set["metadata"]["ownerReferences"] = json!([reference(&deployment)]);
    let member = pod("web-1-a", json!({"priorityClassName": "gold"}), Some(&set));
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "gold"}});
    let objects = [member.clone(), deployment, set, class];
    let all = Given::new(objects.iter().cloned().map(Object::new));
    let mut reader = Reader { all, read: BTreeSet::new() };
    let (member, config) = (Object::new(member), Config::default());
    let outcome = loop {
        match group(&member, &reader, &config) {
            Ok(outcome) => break outcome,
            Err(error) => {
                let key = error.key.expect("it says what to read");
                assert!(reader.read.insert(*key), "nothing is asked for twice");
            }
        }
    };
    assert_eq!(outcome, grouped(&objects).unwrap());
    assert_eq!(outcome.pod_group.unwrap()["spec"]["priorityClassName"], "gold");
}

#[test]
fn each_kind_is_in_the_table_once() {
    let all: Vec<_> = kinds::known().collect();
    let unique: BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
}
