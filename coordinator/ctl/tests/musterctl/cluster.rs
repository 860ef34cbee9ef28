//! The same, asked of an API server.

use std::path::Path;

use muster_sandbox::Sandbox;
use serde_json::{Value as Json, json};

use crate::cluster_file::{ClusterFile, NPU, owned, pod};
use crate::program::musterctl;

const NO_DATA: &str = "do not tell";

fn crds(names: &[&str]) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let read = |name: &&str| -> Vec<Json> {
        let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    };
    names.iter().flat_map(read).collect()
}

const OURS: [&str; 5] = [
    "scheduling.run.ai_queues",
    "scheduling.run.ai_podgroups",
    "scheduling.run.ai_bindrequests",
    "kai.scheduler_topologies",
    "dijob",
];

/// An API server with the objects of a file.
async fn sandbox(file: &ClusterFile) -> Sandbox {
    sandbox_of(file, false).await
}

/// The same, which looks at permissions if it is strict.
async fn sandbox_of(file: &ClusterFile, strict: bool) -> Sandbox {
    let mut builder = Sandbox::builder().controllers(None).tls(true).strict(strict);
    for crd in crds(&OURS) {
        builder = builder.crd(crd);
    }
    let sandbox = builder.start().await.unwrap();
    let create =
        async |path: &str, object: &Json| drop(sandbox.create(path, object).await.unwrap());
    create("/api/v1/namespaces", &json!({"metadata": {"name": "ml"}})).await;
    let account = json!({"metadata": {"name": "default"}});
    create("/api/v1/namespaces/ml/serviceaccounts", &account).await;
    // Every pod mounts it.
    let authority = json!({"metadata": {"name": "kube-root-ca.crt"}});
    create("/api/v1/namespaces/ml/configmaps", &authority).await;
    let lists = [
        ("nodes", "/api/v1/nodes"),
        ("priorityClasses", "/apis/scheduling.k8s.io/v1/priorityclasses"),
        ("queues", "/apis/scheduling.run.ai/v2/queues"),
        ("podGroups", "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups"),
        ("pods", "/api/v1/namespaces/ml/pods"),
    ];
    for (list, path) in lists {
        for object in file.0[list].as_array().unwrap() {
            let mut object = object.clone();
            object["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
            create(path, &object).await;
        }
    }
    // What a kubelet and the node controller would do.
    for node in file.0["nodes"].as_array().unwrap() {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap());
        merge(&sandbox, &format!("{path}/status"), json!({"status": node["status"]})).await;
        merge(&sandbox, &path, json!({"spec": {"taints": node["spec"]["taints"]}})).await;
    }
    for (kind, field) in [("configmaps", "data"), ("secrets", "stringData")] {
        let object = json!({"metadata": {"name": "settings"}, field: {"password": NO_DATA}});
        create(&format!("/api/v1/namespaces/ml/{kind}"), &object).await;
    }
    sandbox
}

/// Merges into an object, or into its status.
async fn merge(sandbox: &Sandbox, path: &str, change: Json) {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(change.to_string().into_bytes())
        .unwrap();
    drop(sandbox.client().request::<Json>(request).await.unwrap());
}

fn ask(sandbox: &Sandbox, arguments: &[&str]) -> (i32, String, String) {
    let kubeconfig = sandbox.kubeconfig_path();
    musterctl(&[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat())
}

fn cluster_file() -> ClusterFile {
    let mut secretive = pod("big-x", "big", 8, "");
    secretive["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": NO_DATA},
        {"name": "FROM", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "password"}}}]);
    let mut file = ClusterFile::new().waiting("big", "team-a", 3, 8);
    file = file.with("pods", [owned(secretive, "Job", "big-node-0")]);
    file.0["podGroups"][1]["spec"]["minMember"] = json!(4);
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_a_cluster_answers_as_the_cluster_does_and_holds_no_secrets() {
    let sandbox = sandbox(&cluster_file()).await;
    let noted = "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups/big/status";
    let condition = json!({"type": "Schedulable", "status": "False", "reason": "NoRoom", "message": "as noted",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    merge(&sandbox, noted, json!({"status": {"conditions": [condition]}})).await;
    let running = json!({"status": {"phase": "Running"}});
    merge(&sandbox, "/api/v1/namespaces/ml/pods/old-0/status", running).await;

    let (code, live, error) = ask(&sandbox, &["explain", "podgroup/big", "-n", "ml", "-o", "json"]);
    assert_eq!((code, error.as_str()), (1, ""), "{live}");
    let mut live: Json = serde_json::from_str(&live).unwrap();
    assert_eq!(live["groups"][0]["now"]["reason"], "NoRoom");
    assert_eq!(live["groups"][0]["recorded"][0]["message"], "as noted");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    let path = file.to_str().unwrap();
    let (code, out, error) = ask(&sandbox, &["snapshot", "--file", path]);
    assert_eq!((code, out.as_str()), (0, ""), "{error}");
    assert!(error.contains("4 nodes, 5 pods, 2 pod groups, 3 queues"), "{error}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(NO_DATA) && !text.contains("managedFields"), "{text}");
    let snapshot: Json = serde_json::from_str(&text).unwrap();
    let maps = snapshot["configMaps"].as_array().unwrap();
    assert!(
        maps.contains(&json!({"metadata": {"name": "settings", "namespace": "ml"}})),
        "{maps:?}"
    );

    let (_, offline, error) = musterctl(&["explain", "podgroup/big", "-f", path, "-o", "json"]);
    assert_eq!(error, "");
    let mut offline: Json = serde_json::from_str(&offline).unwrap();
    assert_ne!(live["at"].take(), Json::Null);
    assert_ne!(offline["at"].take(), Json::Null);
    assert_eq!(offline, live);

    let (code, out, error) = musterctl(&["simulate", "-f", path, "-o", "json"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let simulated: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(simulated["reasons"]["ml/big"]["reason"], "NoRoom");
    assert_eq!(simulated["pods"]["ml/old-0"], json!({"status": "Running", "node": "n0"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_asks_the_cluster() {
    let sandbox = sandbox(&cluster_file()).await;
    let (code, out, error) = ask(&sandbox, &["nodes"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.lines().any(|line| line.starts_with("n1") && line.contains(NPU)), "{out}");
    assert!(ask(&sandbox, &["queues"]).1.contains("  team-b"));
    assert!(ask(&sandbox, &["topology"]).1.starts_with("DOMAIN"));
    // The context's namespace is `default`.
    assert_eq!(ask(&sandbox, &["explain", "big"]).0, 2);
    assert_eq!(ask(&sandbox, &["explain", "podgroup/big", "-A"]).0, 1);

    let (code, _, error) = ask(&sandbox, &["dijobs", "-A"]);
    assert_eq!(code, 0);
    assert!(error.contains("there are no DIJobs"), "{error}");
    let template = json!({"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}});
    let job = json!({"apiVersion": "diengine.opendilab.org/v1alpha1", "kind": "DIJob", "metadata": {"name": "d"},
        "spec": {"coordinator": template, "collector": template, "learner": template}});
    let path = "/apis/diengine.opendilab.org/v1alpha1/namespaces/ml/dijobs";
    sandbox.create(path, &job).await.unwrap();
    let (code, out, error) = ask(&sandbox, &["dijobs", "-n", "ml"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.lines().any(|line| line.split_whitespace().take(2).eq(["ml", "d"])), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_many_pages_comes_whole() {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    for at in 0..1001 {
        let object = json!({"metadata": {"name": format!("n{at:04}")}});
        sandbox.create("/api/v1/nodes", &object).await.unwrap();
    }
    let (code, out, error) = ask(&sandbox, &["nodes", "-o", "json"]);
    assert_eq!(code, 0, "{error}");
    let rows: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_that_are_missing_are_said_and_their_lists_are_empty() {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let (code, out, error) = ask(&sandbox, &["queues", "-o", "json"]);
    assert_eq!((code, out.trim()), (0, "[]"));
    for plural in ["queues", "podgroups", "topologies", "bindrequests"] {
        assert!(error.contains(&format!("this cluster has no {plural} of ")), "{error}");
    }
    assert!(error.contains("kubectl apply --server-side -f deploy/crds"), "{error}");
}

/// A kubeconfig of a service account in namespace `ml`.
async fn reader(sandbox: &Sandbox, name: &str) -> String {
    let path = "/api/v1/namespaces/ml/serviceaccounts";
    sandbox.create(path, &json!({"metadata": {"name": name}})).await.unwrap();
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = sandbox.create(&format!("{path}/{name}/token"), &request).await.unwrap();
    sandbox.kubeconfig(token["status"]["token"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_of_musterctl_is_enough_and_of_one_namespace_what_was_recorded_can_be_read() {
    let sandbox = sandbox_of(&cluster_file(), true).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let path = file.to_str().unwrap();
    let ask =
        |arguments: &[&str]| musterctl(&[arguments, &["--kubeconfig", path, "-n", "ml"]].concat());
    std::fs::write(&file, sandbox.kubeconfig("nobody")).unwrap();
    let (code, out, error) = ask(&["nodes"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(error.contains("log in, or name another --context"), "{error}");

    std::fs::write(&file, reader(&sandbox, "reader").await).unwrap();
    let (code, _, error) = ask(&["nodes"]);
    assert_eq!(code, 1);
    assert!(error.contains("you may not list nodes"), "{error}");
    assert!(error.contains("deploy/ctl/role.yaml"), "{error}");

    let subject = json!([{"kind": "ServiceAccount", "name": "reader", "namespace": "ml"}]);
    let role = |name: &str, kind: &str| {
        json!({"metadata": {"name": name}, "subjects": subject,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}})
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let near = json!({"metadata": {"name": "near"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups", "bindrequests"], "verbs": ["list"]},
        {"apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["list"]}]});
    sandbox.create(&format!("{rbac}/namespaces/ml/roles"), &near).await.unwrap();
    let binding = role("near", "Role");
    sandbox.create(&format!("{rbac}/namespaces/ml/rolebindings"), &binding).await.unwrap();
    let condition = json!({"type": "Schedulable", "status": "False", "reason": "OverLimit", "message": "as noted"});
    let noted = "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups/big/status";
    merge(&sandbox, noted, json!({"status": {"conditions": [condition]}})).await;
    let (code, out, _) = ask(&["explain", "podgroup/big"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("PodGroup ml/big does not run: OverLimit, as recorded"), "{out}");
    assert!(
        out.contains("the engine was not run, only records were read: you may not list nodes"),
        "{out}"
    );

    let text = include_str!("../../../../deploy/ctl/role.yaml");
    let all: Json = serde_saphyr::from_str(text).unwrap();
    sandbox.create(&format!("{rbac}/clusterroles"), &all).await.unwrap();
    let binding = role("musterctl", "ClusterRole");
    sandbox.create(&format!("{rbac}/clusterrolebindings"), &binding).await.unwrap();
    let (code, out, error) = ask(&["explain", "podgroup/big"]);
    assert_eq!((code, error.as_str()), (1, ""));
    assert!(out.starts_with("PodGroup ml/big does not run: NoRoom\n"), "{out}");
    assert_eq!(ask(&["snapshot"]).0, 0);
}

#[test]
fn without_a_cluster_the_remedy_is_named() {
    let (code, _, error) = musterctl(&["queues"]);
    assert_eq!(code, 2);
    assert!(error.contains("no cluster to ask"), "{error}");
    assert!(
        error.contains("--kubeconfig, a context with --context, or a snapshot with -f"),
        "{error}"
    );
    let (code, _, error) = musterctl(&["queues", "--kubeconfig", "/absent"]);
    assert_eq!(code, 2);
    assert!(error.contains("/absent"), "{error}");

    // Nobody listens there.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    let path = file.to_str().unwrap();
    let (code, _, error) = musterctl(&["queues", "--kubeconfig", path, "--request-timeout", "2s"]);
    assert_eq!(code, 1);
    assert!(error.contains("nodes cannot be listed at http://127.0.0.1:1"), "{error}");
    let (code, _, error) = musterctl(&["queues", "--kubeconfig", path, "--context", "x"]);
    assert_eq!(code, 2);
    assert!(error.contains("no cluster to ask"), "{error}");
    assert_eq!(musterctl(&["queues", "--request-timeout", "soon"]).0, 2);
}
