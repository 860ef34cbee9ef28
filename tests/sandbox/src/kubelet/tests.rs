//! Kubelets against the embedded API, and against another with `MUSTER_KUBECONFIG`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::*;
use crate::Sandbox;

mod faults;

const NPU: &str = "huawei.com/Ascend910";

struct World {
    client: Client,
    clock: Clock,
    kubelets: Kubelets,
    root: tempfile::TempDir,
    namespace: String,
    node: String,
    sandbox: Option<Sandbox>,
}

/// A node of its own in a namespace of its own: in a sandbox, or in the cluster of `MUSTER_KUBECONFIG`.
async fn world(clock: Clock, options: KubeletOptions) -> World {
    let (client, sandbox) = match std::env::var_os("MUSTER_KUBECONFIG") {
        Some(path) => {
            let file = kube::config::Kubeconfig::read_from(path).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await;
            (Client::try_from(config.unwrap()).unwrap(), None)
        }
        None => {
            let builder = Sandbox::builder().clock(clock.clone()).controllers(None);
            let sandbox = builder.start().await.unwrap();
            (sandbox.client(), Some(sandbox))
        }
    };
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let (node, namespace) = (format!("nodes-{unique}"), format!("nodes-{unique}"));
    furnish(&client, &namespace).await;
    let root = tempfile::tempdir().unwrap();
    let spec = NodeSpec::new(&node, Profile::Ascend910b8, 0, root.path());
    let kubelets =
        Kubelets::start(client.clone(), clock.clone(), vec![spec], options).await.unwrap();
    World { client, clock, kubelets, root, namespace, node, sandbox }
}

/// A namespace with the service account that pods need.
async fn furnish(client: &Client, namespace: &str) {
    use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let object = serde_json::from_value(named(namespace)).unwrap();
    // Both may be there already.
    let _made = namespaces.create(&PostParams::default(), &object).await;
    let object = serde_json::from_value(named("default")).unwrap();
    let _made = accounts.create(&PostParams::default(), &object).await;
    accounts.get("default").await.unwrap();
}

fn pod(name: &str, npus: u32, annotations: Value) -> Value {
    let mut container = json!({ "name": "c", "image": "i" });
    if npus > 0 {
        container["resources"] =
            json!({ "limits": { NPU: npus.to_string() }, "requests": { NPU: npus.to_string() } });
    }
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "restartPolicy": "Never", "containers": [container],
            "automountServiceAccountToken": false },
    })
}

impl World {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create(&self, mut pod: Value) {
        pod["spec"]["nodeName"] = self.node.as_str().into();
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Waits until the pod is so, and returns it; `None` stands for a pod that is gone.
    async fn until(&self, name: &str, so: impl Fn(Option<&Value>) -> bool) -> Value {
        let waiting = async {
            loop {
                let pod = self.pods().get_opt(name).await.unwrap();
                let pod = pod.map(|p| serde_json::to_value(p).unwrap());
                if so(pod.as_ref()) {
                    return pod.unwrap_or_default();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(20), waiting).await {
            Ok(pod) => pod,
            Err(_) => panic!("{name} never got there: {:#?}", self.pods().get_opt(name).await),
        }
    }

    async fn phase(&self, name: &str, phase: &str) -> Value {
        self.until(name, |pod| pod.is_some_and(|p| p["status"]["phase"] == phase)).await
    }

    fn handle(&self) -> NodeHandle {
        self.kubelets.node(&self.node).unwrap()
    }

    fn log(&self, pod: &str) -> Vec<String> {
        self.kubelets.logs().get(&self.namespace, pod, "c")
    }

    /// Takes away what a lasting cluster would keep.
    async fn close(self) {
        use k8s_openapi::api::core::v1::Namespace;
        self.kubelets.stop().await;
        if self.sandbox.is_none() {
            let all: Api<Node> = Api::all(self.client.clone());
            all.delete(&self.node, &DeleteParams::default()).await.unwrap();
            let force = DeleteParams::default().grace_period(0);
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
            pods.delete_collection(&force, &Default::default()).await.unwrap();
            let all: Api<Namespace> = Api::all(self.client.clone());
            all.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
        }
    }

    fn ids(&self, uid: &Value) -> Vec<String> {
        let held = self.handle().held().into_iter().filter(|h| uid == h.pod.as_str());
        held.flat_map(|h| h.ids).collect()
    }
}

fn by_hand() -> Clock {
    Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap())
}

#[tokio::test]
async fn a_node_registers_with_its_devices_and_its_lease() {
    let world = world(by_hand(), KubeletOptions::default()).await;
    let node: Api<Node> = Api::all(world.client.clone());
    let read = || async { serde_json::to_value(node.get(&world.node).await.unwrap()).unwrap() };
    let object = read().await;
    assert_eq!(object["status"]["capacity"][NPU], "8");
    assert_eq!(object["status"]["addresses"][0]["address"], "10.254.0.1");
    assert_eq!(object["metadata"]["labels"]["accelerator"], "huawei-Ascend910");
    let ready = |o: &Value| {
        let all = o["status"]["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|c| c["type"] == "Ready").unwrap()["status"].clone()
    };
    assert_eq!(ready(&object), "True");
    let handle = world.handle();
    assert!(handle.set_device_health("Ascend910-3", false).await.unwrap());
    let object = read().await;
    assert_eq!(object["status"]["capacity"][NPU], "8");
    assert_eq!(object["status"]["allocatable"][NPU], "7");

    use k8s_openapi::api::coordination::v1::Lease;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), names::LEASE_NAMESPACE);
    let renewed = |second: &'static str| {
        let (leases, name) = (leases.clone(), world.node.clone());
        async move {
            loop {
                let lease = leases.get_opt(&name).await.unwrap();
                let lease = lease.map(|l| serde_json::to_value(l).unwrap()).unwrap_or_default();
                if lease["spec"]["renewTime"].as_str().is_some_and(|t| t.contains(second)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), renewed("03:04:05")).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    tokio::time::timeout(Duration::from_secs(10), renewed("03:04:15")).await.unwrap();
    world.close().await;
}

#[tokio::test]
async fn a_pod_gets_devices_runs_and_gives_them_back() {
    let world = world(by_hand(), KubeletOptions::default()).await;
    world.create(pod("a", 3, json!({ names::RUN_SECONDS: "30" }))).await;
    let running = world.phase("a", "Running").await;
    let uid = &running["metadata"]["uid"];
    assert_eq!(world.ids(uid), ["Ascend910-0", "Ascend910-1", "Ascend910-2"]);
    let checkpoint = world.root.path().join(muster_proto::deviceplugin::CHECKPOINT);
    let read = || checkpoint::read(&std::fs::read_to_string(&checkpoint).unwrap()).unwrap();
    assert_eq!(read().len(), 1);
    assert_eq!(running["status"]["podIP"], "10.128.0.2");
    assert_eq!(running["status"]["hostIP"], "10.254.0.1");

    world.create(pod("b", 6, json!({}))).await;
    let refused = world.phase("b", "Failed").await;
    assert_eq!(refused["status"]["reason"], "UnexpectedAdmissionError");

    world.clock.advance(Duration::from_secs(30));
    let done = world.phase("a", "Succeeded").await;
    let ended = &done["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["finishedAt"]),
        (&json!(0), &json!("2026-01-02T03:04:35Z"))
    );
    assert!(world.ids(uid).is_empty() && read().is_empty());
    assert_eq!(world.log("a"), ["started", "exit 0"]);
    world.close().await;
}

#[tokio::test]
async fn a_deleted_pod_ends_and_leaves_nothing() {
    let world = world(by_hand(), KubeletOptions::default()).await;
    let mut object = pod("a", 1, json!({ names::STOP_SECONDS: "3" }));
    object["spec"]["volumes"] = json!([{ "name": "w", "emptyDir": {} }]);
    world.create(object).await;
    let running = world.phase("a", "Running").await;
    let directory =
        volumes::pod_directory(world.root.path(), running["metadata"]["uid"].as_str().unwrap());
    let volume = directory.join("volumes/kubernetes.io~empty-dir/w");
    assert!(volume.is_dir());
    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    let unready = |p: Option<&Value>| {
        p.is_some_and(|p| p["status"]["containerStatuses"][0]["ready"] == false)
    };
    world.until("a", unready).await;
    world.clock.advance(Duration::from_secs(3));
    world.until("a", |p| p.is_none()).await;
    let gone = async {
        while directory.exists() || !world.handle().held().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    world.close().await;
}

#[tokio::test]
async fn a_closure_sees_its_volumes_devices_and_environment() {
    let containers = Containers::default().image("i", |context: ContainerContext| async move {
        let config = context.path("/etc/cfg/key").unwrap();
        context.log.line(std::fs::read_to_string(config).unwrap());
        context.log.line(&context.env["ASCEND_VISIBLE_DEVICES"]);
        context.log.line(&context.env["POD"]);
        std::fs::write(context.path("/work/out").unwrap(), "x").unwrap();
        context.stop.cancelled().await;
        7
    });
    let options = KubeletOptions { containers, sync: Duration::ZERO, ..Default::default() };
    let world = world(by_hand(), options).await;
    let mut object = pod("a", 2, json!({}));
    object["spec"]["volumes"] =
        json!([{ "name": "w", "emptyDir": {} }, { "name": "cfg", "configMap": { "name": "m" } }]);
    object["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "w", "mountPath": "/work" }, { "name": "cfg", "mountPath": "/etc/cfg" }]);
    object["spec"]["containers"][0]["env"] =
        json!([{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
    world.create(object).await;
    world
        .until("a", |p| {
            p.is_some_and(|p| {
                p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
                    == "ContainerCreating"
            })
        })
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let map = json!({ "metadata": { "name": "m" }, "data": { "key": "one" } });
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let running = world.phase("a", "Running").await;
    let uid = running["metadata"]["uid"].as_str().unwrap();
    let volumes = volumes::pod_directory(world.root.path(), uid).join("volumes");
    let shown = volumes.join("kubernetes.io~configmap/cfg/key");
    let text = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    let wait_for = |path: std::path::PathBuf, wanted: &'static str| async move {
        while text(&path) != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, wait_for(volumes.join("kubernetes.io~empty-dir/w/out"), "x"))
        .await
        .unwrap();
    assert_eq!(world.log("a"), ["one", "0,1", "a"]);
    let patch = Patch::Merge(json!({ "data": { "key": "two" } }));
    maps.patch("m", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::timeout(limit, wait_for(shown, "two")).await.unwrap();

    world.pods().delete("a", &DeleteParams::default()).await.unwrap();
    world.until("a", |p| p.is_none()).await;
    world.close().await;
}

#[tokio::test]
async fn a_pods_token_is_projected_with_the_certificate_and_the_namespace() {
    let world = world(Clock::machine(), KubeletOptions::default()).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let map = json!({ "metadata": { "name": "kube-root-ca.crt" }, "data": { "ca.crt": "CA" } });
    // A real cluster makes its own.
    let _made = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await;
    let mut object = pod("a", 0, json!({}));
    object["spec"]["automountServiceAccountToken"] = true.into();
    world.create(object).await;
    let running = world.phase("a", "Running").await;
    let uid = running["metadata"]["uid"].as_str().unwrap();
    let projected = volumes::pod_directory(world.root.path(), uid)
        .join("volumes/kubernetes.io~projected")
        .join(running["spec"]["volumes"][0]["name"].as_str().unwrap());
    let read = |name: &str| std::fs::read_to_string(projected.join(name)).unwrap();
    assert_eq!(read("namespace"), world.namespace);
    assert!(!read("ca.crt").is_empty());
    use k8s_openapi::api::authentication::v1::TokenReview;
    let review = json!({ "spec": { "token": read("token") } });
    let reviews: Api<TokenReview> = Api::all(world.client.clone());
    let review = serde_json::from_value(review).unwrap();
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    let user = &answer["status"]["user"];
    assert_eq!(user["username"], format!("system:serviceaccount:{}:default", world.namespace));
    assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!([world.node]));
    world.close().await;
}

#[tokio::test]
async fn a_process_runs_on_the_host_only_where_allowed() {
    let options = KubeletOptions { allow_exec: true, ..Default::default() };
    let world = world(Clock::machine(), options).await;
    let mut object = pod("a", 1, json!({ names::EXEC: "true" }));
    let script = "echo dev=$ASCEND_VISIBLE_DEVICES; cat work/in; exit 5";
    object["spec"]["containers"][0]["command"] = json!(["/bin/sh", "-c", "$(SCRIPT)"]);
    object["spec"]["containers"][0]["env"] = json!([{ "name": "SCRIPT", "value": script }]);
    object["spec"]["initContainers"] = json!([{ "name": "i", "image": "i",
        "command": ["/bin/sh", "-c", "echo hello > work/in"],
        "volumeMounts": [{ "name": "w", "mountPath": "/work" }] }]);
    object["spec"]["volumes"] = json!([{ "name": "w", "emptyDir": {} }]);
    object["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "w", "mountPath": "/work" }]);
    world.create(object).await;
    let failed = world.phase("a", "Failed").await;
    let ended = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 5);
    assert_eq!(world.log("a"), ["dev=0", "hello", "exit 5"]);

    let mut object = pod("b", 0, json!({ names::EXEC: "true" }));
    object["spec"]["containers"][0]["command"] = json!(["sleep", "1000"]);
    world.create(object).await;
    world.phase("b", "Running").await;
    world.pods().delete("b", &DeleteParams::default()).await.unwrap();
    world.until("b", |p| p.is_none()).await;
    world.close().await;
}

#[tokio::test]
async fn a_restarted_kubelet_goes_on_where_it_was() {
    let world = world(by_hand(), KubeletOptions::default()).await;
    world.create(pod("first", 1, json!({}))).await;
    world.phase("first", "Running").await;
    world.create(pod("a", 2, json!({ names::RUN_SECONDS: "60" }))).await;
    let running = world.phase("a", "Running").await;
    let uid = running["metadata"]["uid"].clone();
    let node = world.handle();
    node.stop().await.unwrap();
    let socket = world.root.path().join(muster_proto::podresources::SOCKET);
    assert!(tokio::net::UnixStream::connect(&socket).await.is_err());
    world.pods().delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.create(pod("late", 1, json!({}))).await;
    world.clock.advance(Duration::from_secs(20));
    node.restart().await.unwrap();
    assert_eq!(world.ids(&uid), ["Ascend910-1", "Ascend910-2"]);
    assert!(tokio::net::UnixStream::connect(&socket).await.is_ok());
    let late = world.phase("late", "Running").await;
    assert_eq!(world.ids(&late["metadata"]["uid"]), ["Ascend910-0"]);
    assert_eq!(world.phase("a", "Running").await["status"]["podIP"], running["status"]["podIP"]);
    world.clock.advance(Duration::from_secs(40));
    let done = world.phase("a", "Succeeded").await;
    let ended = &done["status"]["containerStatuses"][0];
    assert_eq!(
        (&ended["restartCount"], &ended["state"]["terminated"]["finishedAt"]),
        (&json!(0), &json!("2026-01-02T03:05:05Z"))
    );
    world.close().await;
}

#[tokio::test]
async fn very_many_nodes_share_one_watch() {
    let clock = by_hand();
    let sandbox = Sandbox::builder().clock(clock.clone()).controllers(None).start().await.unwrap();
    let client = sandbox.client();
    furnish(&client, "default").await;
    let nodes =
        (0..1_000).map(|n| NodeSpec::bare(&format!("n{n}"), Profile::NvidiaH1008, n)).collect();
    let kubelets =
        Kubelets::start(client.clone(), clock, nodes, KubeletOptions::default()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    for n in 0..1_000 {
        let mut object = pod(&format!("p{n}"), 0, json!({}));
        object["spec"]["nodeName"] = format!("n{n}").into();
        object["spec"]["containers"][0]["resources"] =
            json!({ "limits": { "nvidia.com/gpu": "8" }, "requests": { "nvidia.com/gpu": "8" } });
        pods.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }
    let all_run = async {
        loop {
            let list = pods.list(&Default::default()).await.unwrap();
            let running =
                |p: &Pod| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
            if list.items.iter().filter(|p| running(p)).count() == 1_000 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all_run).await.unwrap();
    let ids = |n: u32| kubelets.node(&format!("n{n}")).unwrap().held()[0].ids.clone();
    assert_ne!(ids(0), ids(999));
    kubelets.stop().await;
}
