//! The controllers against the embedded API, with and without faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use serde_json::{Value, json};

use super::json as read;
use super::{Controllers, Which};
use crate::Sandbox;
use crate::faults::{Fault, Rule};

mod ownership;

struct World(Sandbox);

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const PATIENCE: Duration = Duration::from_secs(30);

async fn world() -> World {
    World(Sandbox::builder().start().await.unwrap())
}

impl World {
    async fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> Option<Value> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() })
            .unwrap();
        self.0.client().request(request).await.ok()
    }

    /// Like a patient user: what the server refuses for a moment is sent again.
    async fn insist(&self, method: &str, path: &str, content: &str, body: &Value) -> Value {
        for _ in 0..2000 {
            if let Some(answer) = self.send(method, path, content, body).await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{method} {path} is refused for ever");
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.insist("POST", path, "application/json", body).await
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", &Value::Null).await
    }

    async fn delete(&self, path: &str, policy: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": policy});
        self.insist("DELETE", path, "application/json", &options).await;
    }

    async fn set_status(&self, path: &str, status: Value) {
        let path = format!("{path}/status");
        let content = "application/merge-patch+json";
        self.send("PATCH", &path, content, &json!({"status": status})).await;
    }

    /// Looks until `test` says yes.
    async fn until<T>(&self, path: &str, what: &str, test: impl Fn(&Value) -> Option<T>) -> T {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let seen = self.get(path).await.unwrap_or_default();
            if let Some(found) = test(&seen) {
                return found;
            }
            assert!(tokio::time::Instant::now() < end, "waited for {what}: {}", seen["status"]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_gone(&self, path: &str) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.get(path).await.is_some() {
            assert!(tokio::time::Instant::now() < end, "{path} stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn node(&self, name: &str, cpu: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.post("/api/v1/nodes", &body).await;
        let room = json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
        let status = json!({"allocatable": room, "capacity": room,
            "conditions": [{"type": "Ready", "status": "True"}]});
        let path = format!("/api/v1/nodes/{name}/status");
        self.insist("PATCH", &path, "application/merge-patch+json", &json!({"status": status}))
            .await;
        if name != "untended" {
            let path = format!("/api/v1/nodes/{name}");
            let clean = |node: &Value| read::list(node, "/spec/taints").is_empty().then_some(());
            self.until(&path, "no taints", clean).await;
        }
    }

    async fn pods(&self) -> Vec<Value> {
        let list = self.get(PODS).await.unwrap_or_default();
        read::list(&list, "/items").to_vec()
    }

    async fn until_pods(&self, what: &str, test: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until(PODS, what, |list| {
            let items = read::list(list, "/items");
            test(items).then(|| items.to_vec())
        })
        .await
    }

    /// A kubelet of few words: deleted pods go, bound pods run, and end as `fate` says.
    async fn play(&self, fate: impl Fn(&Value) -> Option<&'static str>) {
        for pod in self.pods().await {
            let path = format!("{PODS}/{}", meta::name(&pod));
            if meta::is_terminating(&pod) {
                let now = json!({"kind": "DeleteOptions", "apiVersion": "v1",
                    "gracePeriodSeconds": 0});
                self.send("DELETE", &path, "application/json", &now).await;
                continue;
            }
            if read::text(&pod, "/spec/nodeName").is_empty() {
                continue;
            }
            match read::text(&pod, "/status/phase") {
                "Pending" | "" => {
                    let status = json!({"phase": "Running", "podIP": "10.0.0.1",
                        "podIPs": [{"ip": "10.0.0.1"}],
                        "conditions": [{"type": "Ready", "status": "True"}]});
                    self.set_status(&path, status).await;
                }
                "Running" => {
                    if let Some(phase) = fate(&pod) {
                        let status = json!({"phase": phase,
                            "conditions": [{"type": "Ready", "status": "False"}]});
                        self.set_status(&path, status).await;
                    }
                }
                _ => {}
            }
        }
    }

    /// Plays until the object's condition of this type is True.
    async fn play_until(
        &self,
        path: &str,
        condition: &str,
        fate: impl Fn(&Value) -> Option<&'static str>,
    ) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let seen = self.get(path).await.unwrap_or_default();
            if read::is_true(&seen, condition) {
                return seen;
            }
            assert!(tokio::time::Instant::now() < end, "{condition}: {}", seen["status"]);
            self.play(&fate).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn mk_set(name: &str, replicas: i64, pods: i64, spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": replicas, "template": {"spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i",
                    "resources": {"requests": {"cpu": "10m"}}}]}}}}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn mk_map(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": meta::name(owner),
                "uid": meta::uid(owner), "blockOwnerDeletion": true})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_set_runs_from_its_creation_to_its_end() {
    let world = world().await;
    world.node("a", "4").await;
    world.node("b", "4").await;
    world.post(SETS, &mk_set("js", 2, 2, json!({}))).await;
    let pods = world
        .until_pods("four bound pods", |pods| {
            pods.len() == 4 && pods.iter().all(|p| !read::text(p, "/spec/nodeName").is_empty())
        })
        .await;
    let mut hosts: Vec<&str> = pods.iter().map(|p| read::text(p, "/spec/hostname")).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["js-w-0-0", "js-w-0-1", "js-w-1-0", "js-w-1-1"]);
    let per_node = pods.iter().fold(BTreeMap::new(), |mut count, pod| {
        *count.entry(read::text(pod, "/spec/nodeName")).or_insert(0) += 1;
        count
    });
    assert_eq!(per_node, BTreeMap::from([("a", 2), ("b", 2)]));
    world.play(|_| None).await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices\
                  ?labelSelector=kubernetes.io%2Fservice-name%3Djs";
    let names = world
        .until(slices, "four endpoints", |list| {
            let endpoints: Vec<&Value> = read::list(list, "/items")
                .iter()
                .flat_map(|slice| read::list(slice, "/endpoints"))
                .collect();
            (endpoints.len() == 4)
                .then(|| endpoints.iter().map(|e| read::text(e, "/hostname").to_owned()).collect())
        })
        .await;
    let mut names: Vec<String> = names;
    names.sort_unstable();
    assert_eq!(names, hosts);
    let set = world.play_until(&format!("{SETS}/js"), "Completed", |_| Some("Succeeded")).await;
    assert_eq!(set["status"]["terminalState"], "Completed");
    let job = world.get(&format!("{JOBS}/js-w-0")).await.unwrap();
    assert_eq!(job["status"]["completedIndexes"], "0,1");
    for pod in world.pods().await {
        assert!(meta::finalizers(&pod).is_empty(), "{pod}");
    }
    world.delete(&format!("{SETS}/js"), "Foreground").await;
    world.until_gone(&format!("{SETS}/js")).await;
    world.until_gone(&format!("{JOBS}/js-w-0")).await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_job_restarts_the_whole_set_once_and_then_fails_it() {
    let world = world().await;
    world.node("a", "4").await;
    let spec = json!({"failurePolicy": {"maxRestarts": 1}});
    world.post(SETS, &mk_set("js", 2, 1, spec)).await;
    let fails = |pod: &Value| {
        (meta::label(pod, "jobset.sigs.k8s.io/job-index") == Some("0")).then_some("Failed")
    };
    let set = world.play_until(&format!("{SETS}/js"), "Failed", fails).await;
    assert_eq!(set["status"]["restarts"], 1);
    let failed = read::condition(&set, "Failed").unwrap();
    assert_eq!(failed["reason"], "ReachedMaxRestarts");
    let job = world.get(&format!("{JOBS}/js-w-0")).await.unwrap();
    assert_eq!(meta::label(&job, "jobset.sigs.k8s.io/restart-attempt"), Some("1"));
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_go_with_their_owner_or_stay_as_the_deletion_says() {
    let world = world().await;
    for policy in ["Background", "Foreground", "Orphan"] {
        let owner = world.post(MAPS, &mk_map("owner", &[])).await;
        let dependent = world.post(MAPS, &mk_map("dependent", &[&owner])).await;
        world.post(MAPS, &mk_map("leaf", &[&dependent])).await;
        world.delete(&format!("{MAPS}/owner"), policy).await;
        world.until_gone(&format!("{MAPS}/owner")).await;
        if policy == "Orphan" {
            let left = world.get(&format!("{MAPS}/dependent")).await.unwrap();
            assert!(meta::owners(&left).is_empty());
            assert!(world.get(&format!("{MAPS}/leaf")).await.is_some());
            continue;
        }
        world.until_gone(&format!("{MAPS}/dependent")).await;
        world.until_gone(&format!("{MAPS}/leaf")).await;
    }
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_an_owner_that_never_was_goes_and_one_with_another_owner_stays() {
    let world = world().await;
    let owner = world.post(MAPS, &mk_map("owner", &[])).await;
    let mut ghost = owner.clone();
    ghost["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    world.post(MAPS, &mk_map("lost", &[&ghost])).await;
    world.post(MAPS, &mk_map("kept", &[&ghost, &owner])).await;
    world.until_gone(&format!("{MAPS}/lost")).await;
    let path = format!("{MAPS}/kept");
    world.until(&path, "one owner", |map| (meta::owners(map).len() == 1).then_some(())).await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_furnished_and_goes_with_all_that_is_in_it() {
    let world = world().await;
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    world.post("/api/v1/namespaces", &body).await;
    let base = "/api/v1/namespaces/team";
    let there = |v: &Value| (!meta::uid(v).is_empty()).then_some(());
    world.until(&format!("{base}/serviceaccounts/default"), "account", there).await;
    world.until(&format!("{base}/configmaps/kube-root-ca.crt"), "bundle", there).await;
    let mut held = mk_map("held", &[]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.post(&format!("{base}/configmaps"), &held).await;
    world.post(&format!("{base}/configmaps"), &mk_map("free", &[])).await;
    world.delete(base, "Background").await;
    world.until_gone(&format!("{base}/configmaps/free")).await;
    let why = world
        .until(base, "the reason", |ns| {
            let condition = read::condition(ns, "NamespaceFinalizersRemaining")?;
            (read::text(condition, "/status") == "True")
                .then(|| read::text(condition, "/message").to_owned())
        })
        .await;
    assert!(why.contains("example.com/hold in 1 resource instances"), "{why}");
    let patch = json!({"metadata": {"finalizers": null}});
    let path = format!("{base}/configmaps/held");
    world.insist("PATCH", &path, "application/merge-patch+json", &patch).await;
    world.until_gone(base).await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_waits_for_objects_of_a_resource_installed_a_moment_ago() {
    let world = world().await;
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    world.post("/api/v1/namespaces", &body).await;
    let base = "/api/v1/namespaces/team";
    let there = |v: &Value| (!meta::uid(v).is_empty()).then_some(());
    world.until(&format!("{base}/configmaps/kube-root-ca.crt"), "bundle", there).await;
    // The controllers are not told of the new definition.
    let definitions = "customresourcedefinitions";
    world.0.faults().add(Rule::refusal(500).verb("watch").resource(definitions));
    world.0.api().store.drop_watches(Some(definitions));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget",
                "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    world.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let gadgets = "/apis/example.com/v1/namespaces/team/gadgets";
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "finalizers": ["example.com/hold"]}});
    world.post(gadgets, &gadget).await;
    world.delete(base, "Background").await;
    let path = format!("{gadgets}/g");
    let going = |v: &Value| meta::is_terminating(v).then_some(());
    world.until(&path, "the gadget to go", going).await;
    assert!(world.get(base).await.is_some(), "the namespace went first");
    let patch = json!({"metadata": {"finalizers": null}});
    world.insist("PATCH", &path, "application/merge-patch+json", &patch).await;
    world.until_gone(base).await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_nowhere_says_so_and_goes_where_room_appears() {
    let world = world().await;
    world.node("small", "1").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}});
    world.post(PODS, &pod).await;
    let path = format!("{PODS}/p");
    world
        .until(&path, "PodScheduled=False", |pod| {
            let message = read::text(read::condition(pod, "PodScheduled")?, "/message");
            message.starts_with("0/1 nodes are available: 1 Insufficient cpu.").then_some(())
        })
        .await;
    let mut other = pod.clone();
    other["metadata"]["name"] = "other".into();
    other["spec"]["schedulerName"] = "somebody-else".into();
    world.post(PODS, &other).await;
    world.node("large", "4").await;
    let bound = |pod: &Value| {
        (read::text(pod, "/spec/nodeName") == "large" && read::is_true(pod, "PodScheduled"))
            .then_some(())
    };
    world.until(&path, "a node", bound).await;
    let other = world.get(&format!("{PODS}/other")).await.unwrap();
    assert_eq!(read::text(&other, "/spec/nodeName"), "");
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_counts_the_healthy_pods() {
    let world = world().await;
    world.node("a", "4").await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"}, "spec": {"minAvailable": 1,
            "selector": {"matchLabels": {"app": "x"}}}});
    world.post(budgets, &budget).await;
    for name in ["p", "q"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        world.post(PODS, &pod).await;
    }
    world
        .until_pods("bound", |pods| {
            pods.len() == 2 && pods.iter().all(|p| !read::text(p, "/spec/nodeName").is_empty())
        })
        .await;
    world.play(|_| None).await;
    world
        .until(&format!("{budgets}/b"), "one disruption", |budget| {
            (read::int(budget, "/status/disruptionsAllowed") == Some(1)).then_some(())
        })
        .await;
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_after_the_controllers_have_ended() {
    for stopped in [true, false] {
        let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
        let (client, clock) = (sandbox.client(), crate::clock::Clock::machine());
        let running = Controllers::start(client, clock, Which::default());
        running.inventory.as_ref().unwrap().ready().await;
        let pods = Arc::downgrade(&running.rest.cache(&super::kind::PODS));
        let inventory = Arc::downgrade(running.inventory.as_ref().unwrap());
        let tasks = running.tasks.clone();
        if stopped {
            running.stop().await;
        } else {
            drop(running);
            tasks.end().await;
        }
        assert!(inventory.upgrade().is_none(), "the inventory, stopped: {stopped}");
        assert!(pods.upgrade().is_none(), "the pods, stopped: {stopped}");
        sandbox.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_chosen_controllers_run() {
    let which = Which { job: true, namespace: true, ..Which::none() };
    let world = World(Sandbox::builder().controllers(Some(which)).start().await.unwrap());
    world.node("untended", "4").await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    world.post(JOBS, &job).await;
    let pods = world.until_pods("one pod", |pods| pods.len() == 1).await;
    assert_eq!(read::text(&pods[0], "/spec/nodeName"), "");
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_requests_fail_watches_drop_and_logs_are_forgotten() {
    let world = world().await;
    world.node("a", "4").await;
    let faults = world.0.faults();
    for rule in [
        Rule::refusal(500).chance(0.1),
        Rule::refusal(409).verb("update").chance(0.1),
        Rule::new(Fault::DropWatches).verb("create").chance(0.2),
        Rule::new(Fault::Compact).verb("patch").chance(0.1),
    ] {
        faults.add(rule);
    }
    let spec = json!({"failurePolicy": {"maxRestarts": 1}});
    world.post(SETS, &mk_set("js", 2, 3, spec)).await;
    let fate = |pod: &Value| {
        let first = meta::label(pod, "jobset.sigs.k8s.io/restart-attempt") == Some("0");
        Some(if first { "Failed" } else { "Succeeded" })
    };
    let set = world.play_until(&format!("{SETS}/js"), "Completed", fate).await;
    assert_eq!(set["status"]["restarts"], 1);
    assert!(world.0.faults().struck() > 0);
    world.delete(&format!("{SETS}/js"), "Foreground").await;
    world.until_gone(&format!("{SETS}/js")).await;
    world.until_pods("no pods", <[Value]>::is_empty).await;
    world.0.faults().clear();
    world.0.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_of_a_thousand_pods_is_made_and_bound_in_seconds() {
    let world = world().await;
    for i in 0..20 {
        world.node(&format!("n{i}"), "64").await;
    }
    let start = std::time::Instant::now();
    world.post(SETS, &mk_set("js", 4, 250, json!({}))).await;
    world
        .until_pods("a thousand bound pods", |pods| {
            pods.len() == 1000 && pods.iter().all(|p| !read::text(p, "/spec/nodeName").is_empty())
        })
        .await;
    eprintln!("1,000 pods made and bound in {:?}", start.elapsed());
    world.0.stop().await;
}
