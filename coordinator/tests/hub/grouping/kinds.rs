//! What pods of the usual owners become.

use kube::api::Api;
use muster_scheduling::grouper::Grouped;
use serde_json::{Value, json};

use super::{Intake, job, member, owned, pod, uid};

fn job_set(name: &str) -> Value {
    let template = json!({"spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "image": "i"}]}}}});
    let part = |name: &str, replicas: u32| json!({"name": name, "replicas": replicas, "template": template});
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": {"replicatedJobs": [part("leader", 1), part("workers", 2)]}})
}

fn labels(part: &str, index: u32) -> Value {
    json!({"jobset.sigs.k8s.io/replicatedjob-name": part,
        "jobset.sigs.k8s.io/job-index": index.to_string()})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_of_a_job_share_one_group_and_are_not_written() {
    let intake = Intake::start().await;
    let owner = intake.create("jobs", job("train")).await;
    let mut pods = Vec::new();
    for at in 0..4 {
        pods.push(intake.pod(&format!("train-{at}"), Some(&owner), json!({})).await);
    }
    let name = format!("pg-train-{}", uid(&owner));
    assert_eq!(intake.group_all(&pods).await, vec![member(&name, None, false); 4]);
    let group = intake.pod_group(&name).await;
    assert_eq!(group["spec"]["minMember"], 1);
    assert_eq!(group["spec"]["queue"], "default-queue");
    assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], uid(&owner));
    for pod in &pods {
        let now = intake.look(pod["metadata"]["name"].as_str().unwrap()).await;
        assert_eq!(now["metadata"]["resourceVersion"], pod["metadata"]["resourceVersion"]);
    }
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_of_a_jobset_say_which_part_they_are() {
    let intake = Intake::start().await;
    let owner = intake.create("jobsets", job_set("train")).await;
    let mut pods = Vec::new();
    for (part, index) in [("leader", 0), ("workers", 0), ("workers", 0), ("workers", 1)] {
        let job = owned(job(&format!("train-{part}-{index}-{}", pods.len())), &owner);
        let job = intake.create("jobs", job).await;
        let name = format!("p-{}", pods.len());
        pods.push(intake.pod(&name, Some(&job), labels(part, index)).await);
    }
    let name = format!("pg-train-{}", uid(&owner));
    let parts = ["leader-replica-0", "workers-replica-0", "workers-replica-0", "workers-replica-1"];
    let expected = parts.map(|part| member(&name, Some(part), true));
    assert_eq!(intake.group_all(&pods).await, expected);
    let group = intake.pod_group(&name).await;
    assert_eq!(group["spec"]["minSubGroup"], 2);
    let made: Vec<&str> = group["spec"]["subGroups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["name"].as_str())
        .collect();
    let all = ["leader", "leader-replica-0", "workers", "workers-replica-0", "workers-replica-1"];
    assert_eq!(made, all);
    for (at, part) in parts.iter().enumerate() {
        let pod = intake.look(&format!("p-{at}")).await;
        assert_eq!(pod["metadata"]["labels"]["kai.scheduler/subgroup-name"], *part);
        assert_eq!(pod["metadata"]["annotations"]["pod-group-name"], name.as_str());
        // Who asks again hears the same, and nothing is written.
        assert_eq!(intake.group(&pod).await, member(&name, Some(part), true));
    }
    assert_eq!((intake.writes("create", "PodGroup"), intake.writes("patch", "Pod")), (1, 4));
    assert_eq!(intake.writes("update", "PodGroup"), 0);
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobset_of_a_trainjob_is_grouped_with_what_the_trainjob_says() {
    let intake = Intake::start().await;
    let train = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "llm", "labels": {"kai.scheduler/queue": "research"}},
        "spec": {"runtimeRef": {"name": "torch"}}});
    let train = intake.create("trainjobs", train).await;
    let set = intake.create("jobsets", owned(job_set("llm"), &train)).await;
    let job = intake.create("jobs", owned(job("llm-workers-1"), &set)).await;
    let pod = intake.pod("p", Some(&job), labels("workers", 1)).await;
    let name = format!("pg-llm-{}", uid(&set));
    assert_eq!(intake.group(&pod).await, member(&name, Some("workers-replica-1"), true));
    let group = intake.pod_group(&name).await;
    assert_eq!(group["spec"]["queue"], "research");
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], "JobSet");
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pod_of_a_deployment_and_each_bare_pod_is_a_group_of_its_own() {
    let intake = Intake::remembering().await;
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let above = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    let above = intake.create("deployments", above).await;
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1"}, "spec": spec});
    let set = intake.create("replicasets", owned(set, &above)).await;
    let mut pods = Vec::new();
    for name in ["web-a", "web-b"] {
        pods.push(intake.pod(name, Some(&set), json!({"app": "web"})).await);
    }
    pods.push(intake.pod("bare", None, json!({})).await);
    let named =
        |pod: &Value| format!("pg-{}-{}", pod["metadata"]["name"].as_str().unwrap(), uid(pod));
    let expected: Vec<_> = pods.iter().map(|pod| member(&named(pod), None, false)).collect();
    assert_eq!(intake.group_all(&pods).await, expected);
    for (pod, class) in pods.iter().zip(["inference", "inference", "train"]) {
        let group = intake.pod_group(&named(pod)).await;
        assert_eq!(group["spec"]["priorityClassName"], class);
        assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], uid(pod));
    }
    // No group is looked for that cannot be there: replica set, deployment, namespace.
    assert_eq!((intake.reads("groups"), intake.reads("object")), (1, 3));
    intake.stop().await;
}

/// A definition without rules.
fn definition(group: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_knative_revision_share_a_group_until_that_is_switched_off() {
    let intake = Intake::start().await;
    for kind in ["Service", "Revision"] {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        intake.sandbox.create(path, &definition("serving.knative.dev", kind)).await.unwrap();
    }
    let object = |kind: &str, name: &str| {
        json!({"apiVersion": "serving.knative.dev/v1", "kind": kind, "metadata": {"name": name,
            "annotations": {"autoscaling.knative.dev/min-scale": "2"}}})
    };
    let service = intake.create("services", object("Service", "web")).await;
    let mut groups = Vec::new();
    for (revision, gang) in [("web-1", true), ("web-2", false)] {
        intake.grouper.gang_knative(gang);
        let above = intake.create("revisions", owned(object("Revision", revision), &service)).await;
        for at in ["a", "b"] {
            let labels = json!({"serving.knative.dev/revision": revision});
            let pod = intake.pod(&format!("{revision}-{at}"), Some(&above), labels).await;
            let Grouped::Member { group, .. } = intake.group(&pod).await else {
                panic!("no group")
            };
            let least = intake.pod_group(&group).await["spec"]["minMember"].clone();
            groups.push((group, least));
        }
    }
    assert_eq!(groups[0], groups[1]);
    assert_eq!(groups[0].1, 2);
    assert_ne!(groups[2].0, groups[3].0, "each pod has its own");
    assert_eq!((&groups[2].1, &groups[3].1), (&json!(1), &json!(1)));
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_not_ours_or_name_their_group_are_left_alone() {
    let intake = Intake::start().await;
    let mut other = pod("other", None, json!({}));
    other["spec"]["schedulerName"] = "default-scheduler".into();
    let mut named = pod("named", None, json!({}));
    named["metadata"]["annotations"] = json!({"pod-group-name": "mine"});
    let mut skipped = pod("skipped", None, json!({}));
    skipped["metadata"]["annotations"] = json!({"kai.scheduler/skip-podgrouper": "true"});
    for pod in [other, named, skipped] {
        let pod = intake.create("pods", pod).await;
        assert_eq!(intake.group(&pod).await, Grouped::Skipped);
    }
    assert_eq!(intake.all_groups().await, Vec::<String>::new());
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_may_not_be_read_ends_the_way() {
    let intake = Intake::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    intake.sandbox.create(path, &definition("example.com", "Widget")).await.unwrap();
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = intake.create("widgets", widget).await;
    let job = intake.create("jobs", owned(job("made"), &widget)).await;
    let below = intake.pod("below", Some(&job), json!({})).await;
    let right = intake.pod("right", Some(&widget), json!({})).await;
    let group = format!("pg-made-{}", uid(&job));
    assert_eq!(intake.group(&below).await, member(&group, None, false));
    let group = format!("pg-right-{}", uid(&right));
    assert_eq!(intake.group(&right).await, member(&group, None, false));
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_comes_from_the_namespace_and_a_class_from_the_cluster() {
    let intake = Intake::start().await;
    intake.label_namespace(json!({"kai.scheduler/queue": "team"})).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "urgent"}, "value": 7});
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    intake.sandbox.create(path, &class).await.unwrap();
    let known = intake.pod("a", None, json!({"priorityClassName": "urgent"})).await;
    let unknown = intake.pod("b", None, json!({"priorityClassName": "none-such"})).await;
    for (pod, class) in [(known, "urgent"), (unknown, "train")] {
        let Grouped::Member { group, .. } = intake.group(&pod).await else { panic!("no group") };
        let group = intake.pod_group(&group).await;
        assert_eq!(
            (&group["spec"]["queue"], &group["spec"]["priorityClassName"]),
            (&json!("team"), &json!(class))
        );
    }
    intake.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_to_a_secret_is_not_followed() {
    let intake = Intake::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "annotations": {"inside": "hidden"}}});
    let secret = intake.create("secrets", secret).await;
    let pod = intake.pod("p", Some(&secret), json!({})).await;
    let Grouped::Member { group, .. } = intake.group(&pod).await else { panic!("no group") };
    let group = intake.pod_group(&group).await;
    assert_eq!(group["metadata"]["annotations"]["inside"], Value::Null);
    assert_eq!(group["metadata"]["ownerReferences"][0]["kind"], "Pod");
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(intake.sandbox.client(), "default");
    assert!(secrets.get("s").await.is_ok());
    intake.stop().await;
}
