//! What a controller of ModelServings asks of an API server: both definitions as they are shipped, and all that it
//! makes for them.

use http::Method;
use muster_sandbox::Sandbox;
use muster_sandbox::control::Which;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::NodeSpec;
use serde_json::{Value, json};

use super::caller::*;

const KTHENA: &str = include_str!("../../../../deploy/crds/modelserving.yaml");
const SEED: &str = include_str!("../../../../deploy/crds/modelserving-short.yaml");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LONG: &str = "/apis/workload.serving.volcano.sh/v1alpha1/namespaces/default/modelservings";
const SHORT: &str = "/apis/workload.kthena.io/v1alpha1/namespaces/default/modelservings";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn definition(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// What Volcano brings along, as far as anybody here looks.
fn pod_groups() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.volcano.sh"},
        "spec": {"group": "scheduling.volcano.sh", "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn pod(name: &str, role: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "llm", "role": role}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}})
}

fn kthena(name: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": name}, "spec": {"template": {"roles": [
            {"name": "decode", "workerReplicas": 0, "entryTemplate": template}]}}})
}

async fn both() -> Sandbox {
    let builder = Sandbox::builder().controllers(None);
    builder.crd(definition(KTHENA)).crd(definition(SEED)).start().await.unwrap()
}

#[tokio::test]
async fn both_shapes_are_completed_and_refused_as_their_definitions_say() {
    let sandbox = both().await;
    let made = post(&sandbox, LONG, &kthena("llm")).await.expect(201);
    let spec = &made["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["schedulerName"], "volcano");
    assert_eq!(spec["recoveryPolicy"], "RoleRecreate");
    assert_eq!(spec["template"]["roles"][0]["replicas"], 1);
    assert_eq!(made["metadata"]["generation"], 1);
    let mut five = kthena("five");
    let role = five["spec"]["template"]["roles"][0].clone();
    let named = |at: usize| {
        let mut role = role.clone();
        role["name"] = json!(format!("r{at}"));
        role
    };
    five["spec"]["template"]["roles"] = (0..5).map(named).collect();
    post(&sandbox, LONG, &five).await.expect(422);

    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut seed = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen"},
        "spec": {"model": {"name": "Qwen"}, "roles": [{"name": "worker", "template": template}]}});
    let made = post(&sandbox, SHORT, &seed).await.expect(201);
    assert_eq!(made["spec"]["roles"][0]["replicas"], 1);
    assert_eq!(made["spec"]["model"], json!({"name": "Qwen"}));
    seed["metadata"]["name"] = "none".into();
    seed["spec"]["roles"] = json!([]);
    post(&sandbox, SHORT, &seed).await.expect(422);
}

#[tokio::test]
async fn the_status_is_a_thing_of_its_own_and_scale_follows_it() {
    let sandbox = both().await;
    let made = post(&sandbox, LONG, &kthena("llm")).await.expect(201);
    let path = format!("{LONG}/llm");
    let status = format!("{path}/status");
    let selector = "modelserving.volcano.sh/name=llm";
    let version = &made["metadata"]["resourceVersion"];
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": {"replicas": 2, "labelSelector": selector}},
    ])
    .to_string();
    let patched = call(&sandbox, Method::PATCH, &status, JSON_PATCH, patch.clone()).await;
    let patched = patched.expect(200);
    assert_eq!(patched["status"]["replicas"], 2);
    assert_eq!(patched["metadata"]["generation"], 1, "a status is no new generation");
    let again = call(&sandbox, Method::PATCH, &status, JSON_PATCH, patch).await;
    assert!(matches!(again.code, 409 | 422), "an old version must be refused: {}", again.body);
    // Written at the object, a status is passed over; at the status, a spec is.
    let body = json!({"spec": {"replicas": 3}, "status": {"replicas": 9}}).to_string();
    let changed = call(&sandbox, Method::PATCH, &path, MERGE, body.clone()).await.expect(200);
    assert_eq!(
        (&changed["spec"]["replicas"], &changed["status"]["replicas"]),
        (&json!(3), &json!(2))
    );
    let body = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}}).to_string();
    let changed = call(&sandbox, Method::PATCH, &status, MERGE, body).await.expect(200);
    assert_eq!(
        (&changed["spec"]["replicas"], &changed["status"]["replicas"]),
        (&json!(3), &json!(3))
    );
    // The same once more changes nothing, and nobody hears of it.
    let body = json!({"status": {"replicas": 3}}).to_string();
    let same = call(&sandbox, Method::PATCH, &status, MERGE, body).await.expect(200);
    assert_eq!(revision(&same), revision(&changed));

    let mut scale = get(&sandbox, &format!("{path}/scale")).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(scale["status"], json!({"replicas": 3, "selector": selector}));
    scale["spec"]["replicas"] = 5.into();
    let body = scale.to_string();
    call(&sandbox, Method::PUT, &format!("{path}/scale"), JSON, body).await.expect(200);
    let scaled = get(&sandbox, &path).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(scaled["metadata"]["generation"], 3);
}

#[tokio::test]
async fn pods_go_all_at_once_by_their_labels() {
    let sandbox = bare().await;
    for (name, role) in [("a", "decode"), ("b", "decode"), ("c", "prefill")] {
        let path = "/api/v1/namespaces/default/serviceaccounts";
        post(&sandbox, path, &json!({"metadata": {"name": "default"}})).await;
        post(&sandbox, PODS, &pod(name, role)).await.expect(201);
    }
    let chosen = quoted("app=llm,role=decode");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = format!("{PODS}?labelSelector={chosen}");
    call(&sandbox, Method::DELETE, &path, JSON, options.to_string()).await.expect(200);
    let left = get(&sandbox, PODS).await.expect(200);
    let names: Vec<_> =
        left["items"].as_array().unwrap().iter().map(|p| &p["metadata"]["name"]).collect();
    assert_eq!(names, ["c"]);
}

#[tokio::test]
async fn revisions_headless_services_and_pod_groups_are_kept() {
    let sandbox = bare().await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let data = json!({"roles": [{"name": "decode", "entryTemplate": {"spec": {"x": [1, null]}}}]});
    let body = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "llm-5d8f", "labels": {"app": "llm"}}, "data": data});
    let made = post(&sandbox, revisions, &body).await.expect(201);
    assert_eq!(made["data"], data);
    post(&sandbox, revisions, &body).await.expect(409);
    let list = get(&sandbox, &format!("{revisions}?labelSelector=app%3Dllm")).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    // What a revision keeps, it keeps for ever: whoever wants another makes another.
    let path = format!("{revisions}/llm-5d8f");
    let put = async |change: Value| {
        let mut body = made.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        call(&sandbox, Method::PUT, &path, JSON, body.to_string()).await
    };
    let refused = put(json!({"data": {"roles": []}, "revision": 2})).await.expect(422);
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("data: Invalid value") && why.contains("field is immutable"), "{why}");
    put(json!({"revision": -1})).await.expect(422);
    put(json!({"revision": 2})).await.expect(200);
    for data in [json!(null), json!([1])] {
        let bad = json!({"metadata": {"name": "bad"}, "revision": 1, "data": data});
        post(&sandbox, revisions, &bad).await.expect(422);
    }
    call(&sandbox, Method::DELETE, &path, JSON, "").await.expect(200);

    // It has no ports, and is called like the pod that it stands for.
    let services = "/api/v1/namespaces/default/services";
    let body = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "llm-0-decode-0-0", "labels": {"app": "llm"}},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": "llm"}}});
    let made = post(&sandbox, services, &body).await.expect(201);
    assert_eq!(made["spec"]["clusterIP"], "None");
    assert_eq!(made["spec"]["publishNotReadyAddresses"], true);

    let list =
        format!("{DEFINITIONS}?fieldSelector=metadata.name%3Dpodgroups.scheduling.volcano.sh");
    let before = get(&sandbox, &list).await.expect(200);
    assert_eq!(before["items"], json!([]));
    let from = revision(&before);
    let watched = format!("{list}&watch=true&resourceVersion={from}");
    let mut watch = Watch::open(&sandbox, Way::Process, &watched).await;
    post(&sandbox, DEFINITIONS, &definition(SEED)).await.expect(201);
    post(&sandbox, DEFINITIONS, &pod_groups()).await.expect(201);
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["metadata"]["name"], "podgroups.scheduling.volcano.sh");

    let groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";
    let body = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "llm-0"}, "spec": {"minMember": 2}});
    eventually("PodGroups are served", async || get(&sandbox, groups).await.code == 200).await;
    let mut made = post(&sandbox, groups, &body).await.expect(201);
    made["spec"]["minMember"] = 3.into();
    let path = format!("{groups}/llm-0");
    let changed = call(&sandbox, Method::PUT, &path, JSON, made.to_string()).await.expect(200);
    assert_eq!(changed["spec"]["minMember"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_another_scheduler_run_where_ours_stands_in_for_it() {
    for stands_in in [true, false] {
        let names = stands_in.then(|| "volcano".to_owned());
        let which = Which { schedulers: names.into_iter().collect(), ..Which::default() };
        let node = NodeSpec::bare("n", Profile::Cpu, 0);
        let sandbox = Sandbox::builder().controllers(Some(which)).nodes(vec![node]);
        let sandbox = sandbox.start().await.unwrap();
        let mut plain = pod("plain", "decode");
        plain["spec"]["schedulerName"] = "default-scheduler".into();
        for pod in [pod("other", "decode"), plain] {
            eventually("a pod is taken", async || post(&sandbox, PODS, &pod).await.code == 201)
                .await;
        }
        let waiting = if stands_in { &["other", "plain"][..] } else { &["plain"] };
        for name in waiting {
            let path = format!("{PODS}/{name}");
            eventually("it runs", async || {
                get(&sandbox, &path).await.body["status"]["phase"] == "Running"
            })
            .await;
        }
        let other = get(&sandbox, &format!("{PODS}/other")).await.expect(200);
        assert_eq!(other["spec"]["nodeName"] == "n", stands_in);
        sandbox.stop().await;
    }
}
