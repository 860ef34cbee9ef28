//! From a pod's devices to its annotation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use muster_agent::annotate::{self, AnnotateInputs, Metrics};
use muster_agent::directories::Directories;
use muster_agent::host::Host;
use muster_agent::kubelet::{self, Channels, KubeletSettings};
use muster_agent::pods::{self, PodMap, PodMeta};
use muster_agent::problem::{Area, Problems};
use muster_proto::Message;
use muster_proto::annotation::{KEY, PodRanktable};
use muster_proto::device::{Chip, Device, Inventory, Vendor};
use muster_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use muster_proto::pod::{Held, PodDevices, PodRef};
use muster_sandbox::Sandbox;
use muster_sandbox::faults::Rule;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::devices::Devices;
use muster_sandbox::kubelet::podresources::{self, PodView, View};
use muster_sandbox::kubelet::{Containers, KubeletOptions, NodeSpec};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NODE: &str = "n1";
const NPU: &str = "huawei.com/Ascend910";
const GPU: &str = "nvidia.com/gpu";
const PATIENCE: Duration = Duration::from_secs(30);

/// The parts of the agent that are meant here. They end with the value.
struct Agent {
    problems: Problems,
    metrics: Metrics,
    pods: watch::Receiver<Arc<PodMap>>,
    devices: watch::Receiver<Arc<Vec<PodDevices>>>,
    inventory: watch::Sender<Arc<Inventory>>,
    heard: watch::Receiver<bool>,
    _server_id: watch::Sender<Option<String>>,
    _tasks: JoinSet<()>,
}

impl Agent {
    fn start(client: Client, root: &Path, inventory: Inventory) -> Self {
        let problems = Problems::default();
        let metrics = Metrics::register(&mut Registry::default());
        let (pods_out, pods) = watch::channel(Arc::new(PodMap::new()));
        let (devices_out, devices) = watch::channel(Arc::new(Vec::new()));
        let (inventory, inventory_in) = watch::channel(Arc::new(inventory));
        let settings = KubeletSettings::default();
        let mut tasks = JoinSet::new();
        let (api, resources, told) = (client.clone(), settings.resources.clone(), problems.clone());
        let (listed, listed_in) = watch::channel(false);
        tasks
            .spawn(async move { pods::follow(api, NODE, resources, pods_out, listed, told).await });
        let (heard_out, heard) = watch::channel(false);
        let channels = Channels {
            pods: pods.clone(),
            inventory: inventory_in.clone(),
            listed: listed_in,
            out: devices_out,
            heard: heard_out,
        };
        let (host, told) = (Host::at(root), problems.clone());
        tasks.spawn(async move {
            let directories = Directories::new(&told);
            kubelet::follow(host, settings, &directories, channels, told).await;
        });
        let (server_id_out, server_id) = watch::channel(Some("192.168.1.10".to_owned()));
        let sources = AnnotateInputs {
            pods: pods.clone(),
            devices: devices.clone(),
            inventory: inventory_in,
            server_id,
        };
        tasks.spawn(annotate::run(client, sources, problems.clone(), metrics.clone()));
        Self {
            _server_id: server_id_out,
            problems,
            metrics,
            pods,
            devices,
            inventory,
            heard,
            _tasks: tasks,
        }
    }

    fn reasons(&self, area: Area) -> Vec<&'static str> {
        let open = self.problems.list().into_iter();
        open.filter(|problem| problem.area == area).map(|problem| problem.reason).collect()
    }
}

fn inventory(profile: Profile) -> Inventory {
    let devices = profile.devices(0).into_iter().zip(0_u32..).map(|(known, id)| {
        let gpu = profile == Profile::NvidiaH1008;
        let vendor = if gpu { Vendor::Nvidia } else { Vendor::Ascend };
        let mut device = Device::new(vendor, id, known.path);
        device.chip = if gpu { Chip::NvidiaGpu } else { Chip::Ascend910b };
        device.uuid = gpu.then_some(known.id);
        device.ip = format!("10.20.0.{}", id + 2).parse().ok();
        device
    });
    Inventory { settled: true, devices: devices.collect(), ..Inventory::default() }
}

fn pod(name: &str, resource: &str, count: u32) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "nodeName": NODE, "restartPolicy": "Never", "automountServiceAccountToken": false,
            "initContainers": [{ "name": "wait", "image": "i" }],
            "containers": [{ "name": "c", "image": "i",
                "resources": { "limits": { resource: count.to_string() },
                    "requests": { resource: count.to_string() } } }] },
    })
}

async fn create(client: &Client, pod: Value) -> Pod {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = serde_json::from_value(pod).unwrap();
    api.create(&PostParams::default(), &pod).await.unwrap()
}

/// Waits until something is so.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}

async fn get(client: &Client, name: &str) -> Option<Pod> {
    Api::<Pod>::default_namespaced(client.clone()).get_opt(name).await.unwrap()
}

fn ids(pod: &Pod) -> Option<Vec<String>> {
    let table = PodRanktable::parse(pod.annotations().get(KEY)?).unwrap();
    Some(table.devices.into_iter().map(|device| device.device_id).collect())
}

/// Waits for the annotation of a pod and returns the pod.
async fn annotated(client: &Client, name: &str) -> Pod {
    let mut found = None;
    until("the annotation", async || {
        found = get(client, name).await.filter(|pod| pod.annotations().contains_key(KEY));
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// A sandbox without controllers, in which pods can be made.
async fn sandbox(nodes: Vec<NodeSpec>, strict: bool) -> Sandbox {
    // The first container waits for ever, as one that waits for its rank table does.
    let wait = |context: muster_sandbox::kubelet::ContainerContext| async move {
        context.stop.cancelled().await;
        0
    };
    let containers = Containers::default().on(|_, container| container == "wait", wait);
    let options = KubeletOptions { containers, ..KubeletOptions::default() };
    let builder = Sandbox::builder().controllers(None).strict(strict).kubelet(options).nodes(nodes);
    let sandbox = builder.start().await.unwrap();
    let account = json!({ "metadata": { "name": "default" } });
    sandbox.create("/api/v1/namespaces/default/serviceaccounts", &account).await.unwrap();
    sandbox
}

/// A node that is only files and a socket: nobody but the agent writes pods.
struct Stub {
    sandbox: Sandbox,
    client: Client,
    root: tempfile::TempDir,
    stop: CancellationToken,
}

impl Stub {
    async fn start(strict: bool) -> Self {
        let sandbox = sandbox(vec![], strict).await;
        let client = sandbox.client();
        let root = tempfile::tempdir().unwrap();
        Self { sandbox, client, root, stop: CancellationToken::new() }
    }

    /// A pod that holds the first devices of the node, as pod-resources tell.
    async fn hold(&self, name: &str, count: u32) -> Pod {
        self.hold_as(pod(name, NPU, count)).await
    }

    /// The same for this pod.
    async fn hold_as(&self, pod: Value) -> Pod {
        let made = create(&self.client, pod).await;
        let mut view = View { devices: Devices::default(), pods: Default::default() };
        view.devices.register(NPU, Profile::Ascend910b8.devices(0));
        view.devices.allocate(&serde_json::to_value(&made).unwrap()).unwrap();
        let shown = PodView {
            namespace: "default".into(),
            name: made.name_any(),
            containers: vec!["c".into()],
        };
        view.pods.insert(made.uid().unwrap(), shown);
        let socket = self.root.path().join(muster_proto::podresources::SOCKET);
        let view = Arc::new(parking_lot::Mutex::new(view));
        podresources::serve(&socket, view, self.stop.clone()).await.unwrap();
        made
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn a_pod_with_eight_npus_is_annotated_while_its_init_container_waits() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::Ascend910b8, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    let client = sandbox.client();
    let agent = Agent::start(client.clone(), root.path(), inventory(Profile::Ascend910b8));
    create(&client, pod("w-0", NPU, 8)).await;
    let pod = annotated(&client, "w-0").await;
    let text = r#"{"pod_name":"w-0","server_id":"192.168.1.10","devices":[{"device_id":"0","device_ip":"10.20.0.2"},{"device_id":"1","device_ip":"10.20.0.3"},{"device_id":"2","device_ip":"10.20.0.4"},{"device_id":"3","device_ip":"10.20.0.5"},{"device_id":"4","device_ip":"10.20.0.6"},{"device_id":"5","device_ip":"10.20.0.7"},{"device_id":"6","device_ip":"10.20.0.8"},{"device_id":"7","device_ip":"10.20.0.9"}]}"#;
    assert_eq!(pod.annotations()[KEY], text);
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    assert!(phase.is_none_or(|phase| phase == "Pending"));
    let ours = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        entry.manager.as_deref() == Some("muster-agent")
    };
    let owned = pod.managed_fields().iter().find(ours).unwrap();
    let owned = serde_json::to_value(&owned.fields_v1).unwrap();
    let expected = json!({"f:metadata": {"f:annotations": {"f:ascend.com/ranktable": {}}}});
    assert_eq!(owned, expected, "one key and nothing else");
    assert_eq!(agent.problems.list(), []);
}

#[tokio::test]
async fn a_gpu_pod_is_told_its_gpus() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::NvidiaH1008, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    let client = sandbox.client();
    let mut early = inventory(Profile::NvidiaH1008);
    early.settled = false;
    let agent = Agent::start(client.clone(), root.path(), early.clone());
    create(&client, pod("g", GPU, 2)).await;
    let mut devices = agent.devices.clone();
    let held = devices.wait_for(|pods| !pods.is_empty());
    tokio::time::timeout(PATIENCE, held).await.unwrap().unwrap();
    assert_eq!(ids(&get(&client, "g").await.unwrap()), None, "not before all is known");
    early.settled = true;
    agent.inventory.send_replace(Arc::new(early));
    let pod = annotated(&client, "g").await;
    let table = PodRanktable::parse(&pod.annotations()[KEY]).unwrap();
    let uuids: Vec<_> = table.devices.iter().filter_map(|device| device.uuid.clone()).collect();
    let expected: Vec<String> =
        Profile::NvidiaH1008.devices(0).into_iter().take(2).map(|device| device.id).collect();
    assert_eq!((uuids, ids(&pod).unwrap()), (expected, vec!["0".to_owned(), "1".to_owned()]));
}

#[tokio::test]
async fn a_scheduler_that_chooses_devices_itself_is_believed() {
    let stub = Stub::start(false).await;
    let made = stub.hold("v", 4).await;
    let answer = ContainerAllocateResponse {
        envs: [("ASCEND_VISIBLE_DEVICES".to_owned(), "4,5,6,7".to_owned())].into(),
        ..ContainerAllocateResponse::default()
    };
    let answer = base64::engine::general_purpose::STANDARD.encode(answer.encode_to_vec());
    let checkpoint = json!({"Data": {"PodDeviceEntries": [{"PodUID": made.uid(), "ContainerName": "c",
        "ResourceName": NPU, "AllocResp": answer,
        "DeviceIDs": {"-1": ["Ascend910-0", "Ascend910-1", "Ascend910-2", "Ascend910-3"]}}],
        "RegisteredDevices": {}}, "Checksum": 7});
    let file = stub.root.path().join(muster_proto::deviceplugin::CHECKPOINT);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, checkpoint.to_string()).unwrap();
    let profile = inventory(Profile::Ascend910b8);
    let _agent = Agent::start(stub.client.clone(), stub.root.path(), profile);
    assert_eq!(ids(&annotated(&stub.client, "v").await).unwrap(), ["4", "5", "6", "7"]);
}

#[tokio::test]
async fn a_choice_of_the_scheduler_that_nobody_confirms_is_waited_for() {
    let stub = Stub::start(false).await;
    let mut chosen = pod("v", NPU, 2);
    chosen["metadata"]["annotations"] = json!({ NPU: "Ascend910-6,Ascend910-7" });
    stub.hold_as(chosen).await;
    let profile = inventory(Profile::Ascend910b8);
    let mut agent = Agent::start(stub.client.clone(), stub.root.path(), profile);
    until("two looks", async || {
        let open = agent.problems.list();
        open.iter().any(|it| it.reason == "annotation-unconfirmed" && it.count > 1)
    })
    .await;
    assert!(!*agent.heard.borrow(), "none is not the answer yet");
    assert_eq!(agent.devices.borrow().len(), 0);
    let real = json!({"metadata": {"annotations": {
        "huawei.com/AscendReal": "Ascend910-6,Ascend910-7",
        "huawei.com/kltDev": "Ascend910-0,Ascend910-1" }}});
    let api: Api<Pod> = Api::default_namespaced(stub.client.clone());
    api.patch("v", &PatchParams::default(), &Patch::Merge(real)).await.unwrap();
    assert_eq!(ids(&annotated(&stub.client, "v").await).unwrap(), ["6", "7"]);
    let heard = agent.heard.wait_for(|heard| *heard);
    tokio::time::timeout(PATIENCE, heard).await.unwrap().unwrap();
    until("no problem is left", async || agent.problems.list().is_empty()).await;
}

#[tokio::test]
async fn an_address_that_is_missing_withholds_an_annotation_and_leaves_one_that_is_there() {
    let stub = Stub::start(false).await;
    stub.hold("a", 2).await;
    let good = inventory(Profile::Ascend910b8);
    let mut bad = good.clone();
    bad.devices[1].ip = None;
    let agent = Agent::start(stub.client.clone(), stub.root.path(), bad.clone());
    until("a problem", async || agent.reasons(Area::Annotate) == ["address-missing"]).await;
    assert_eq!(ids(&get(&stub.client, "a").await.unwrap()), None);
    agent.inventory.send_replace(Arc::new(good));
    let before = annotated(&stub.client, "a").await;
    until("no problem is left", async || agent.problems.list().is_empty()).await;
    agent.inventory.send_replace(Arc::new(bad));
    until("a problem", async || agent.reasons(Area::Annotate) == ["address-missing"]).await;
    let after = get(&stub.client, "a").await.unwrap();
    assert_eq!(after.annotations().get(KEY), before.annotations().get(KEY));
    assert_eq!(agent.metrics.written("applied"), 1);
}

#[tokio::test]
async fn a_device_that_the_kubelet_does_not_offer_is_a_problem() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::Ascend910b8, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    let kubelet = sandbox.kubelets().unwrap().node(NODE).unwrap();
    assert!(kubelet.set_device_health("Ascend910-5", false).await.unwrap());
    let profile = inventory(Profile::Ascend910b8);
    let agent = Agent::start(sandbox.client(), root.path(), profile.clone());
    until("a problem", async || agent.reasons(Area::Assignment) == ["device-not-offered"]).await;
    assert_eq!(agent.problems.list()[0].subject, "NPU5");
    let mut faulty = profile;
    faulty.devices[5].health = muster_proto::device::Health::Faulty("lost".into());
    agent.inventory.send_replace(Arc::new(faulty));
    until("no problem is left", async || agent.problems.list().is_empty()).await;
}

#[tokio::test]
async fn a_kubelet_that_goes_and_comes_back_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::Ascend910b8, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    let client = sandbox.client();
    let agent = Agent::start(client.clone(), root.path(), inventory(Profile::Ascend910b8));
    create(&client, pod("a", NPU, 2)).await;
    annotated(&client, "a").await;
    let kubelet = sandbox.kubelets().unwrap().node(NODE).unwrap();
    kubelet.stop().await.unwrap();
    create(&client, pod("b", NPU, 2)).await;
    until("the socket is missed", async || !agent.reasons(Area::PodResources).is_empty()).await;
    assert_eq!(agent.devices.borrow().len(), 1, "what was known stays");
    kubelet.restart().await.unwrap();
    assert_eq!(ids(&annotated(&client, "b").await).unwrap(), ["2", "3"]);
    until("all is well", async || agent.problems.list().is_empty()).await;
    assert_eq!(ids(&get(&client, "a").await.unwrap()).unwrap(), ["0", "1"]);
}

#[tokio::test]
async fn a_pod_made_anew_under_the_same_name_gets_its_own_devices() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::Ascend910b8, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    let client = sandbox.client();
    let _agent = Agent::start(client.clone(), root.path(), inventory(Profile::Ascend910b8));
    create(&client, pod("a", NPU, 2)).await;
    annotated(&client, "a").await;
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    api.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    until("the pod is gone", async || get(&client, "a").await.is_none()).await;
    create(&client, pod("other", NPU, 1)).await;
    annotated(&client, "other").await;
    create(&client, pod("a", NPU, 3)).await;
    let pod = annotated(&client, "a").await;
    let kubelet = sandbox.kubelets().unwrap().node(NODE).unwrap();
    let held = kubelet.held().into_iter().filter(|held| Some(&held.pod) == pod.uid().as_ref());
    let held: Vec<String> = held
        .flat_map(|held| held.ids)
        .map(|id| id.trim_start_matches("Ascend910-").to_owned())
        .collect();
    assert_eq!((ids(&pod).unwrap(), held.len()), (held, 3));
}

#[tokio::test]
async fn a_pod_of_another_uid_is_never_written() {
    let stub = Stub::start(false).await;
    let live = create(&stub.client, pod("a", NPU, 1)).await;
    let old = PodRef { namespace: "default".into(), name: "a".into(), uid: "old".into() };
    let absent = PodRef { name: "b".into(), ..old.clone() };
    let mut map = PodMap::new();
    let mut all = Vec::new();
    for pod in [old, absent] {
        let held = Held {
            vendor: Vendor::Ascend,
            id: 0,
            container: "c".into(),
            resource: NPU.into(),
            part: None,
        };
        all.push(PodDevices { pod: pod.clone(), devices: vec![held] });
        let meta =
            PodMeta { pod, annotations: Default::default(), rank_group: None, deleting: false };
        map.insert(meta.key(), meta);
    }
    let (_pods, pods) = watch::channel(Arc::new(map));
    let (_devices, devices) = watch::channel(Arc::new(all));
    let (_inventory, inventory) = watch::channel(Arc::new(inventory(Profile::Ascend910b8)));
    let problems = Problems::default();
    let metrics = Metrics::register(&mut Registry::default());
    let (_server_id, server_id) = watch::channel(Some("s".to_owned()));
    let sources = AnnotateInputs { pods, devices, inventory, server_id };
    let mut tasks = JoinSet::new();
    let client = stub.client.clone();
    tasks.spawn(annotate::run(client, sources, problems.clone(), metrics.clone()));
    until("both are refused for long", async || problems.open(Area::Annotate) == 2).await;
    assert_eq!(metrics.written("applied"), 0);
    let now = get(&stub.client, "a").await.unwrap();
    assert_eq!(now.resource_version(), live.resource_version());
    assert!(get(&stub.client, "b").await.is_none(), "no pod is made");
}

#[tokio::test]
async fn an_api_under_stress_is_asked_again() {
    for (code, reason) in [(409, "conflict"), (429, "throttled"), (500, "server-error")] {
        let stub = Stub::start(false).await;
        stub.hold("a", 2).await;
        stub.sandbox.faults().add(Rule::refusal(code).verb("patch").resource("pods").times(2));
        let profile = inventory(Profile::Ascend910b8);
        let agent = Agent::start(stub.client.clone(), stub.root.path(), profile);
        assert_eq!(ids(&annotated(&stub.client, "a").await).unwrap(), ["0", "1"]);
        until("it is counted", async || agent.metrics.written("applied") == 1).await;
        assert_eq!(agent.metrics.written(reason), 2);
        until("no problem is left", async || agent.problems.list().is_empty()).await;
    }
}

#[tokio::test]
async fn a_watch_that_fails_is_a_problem_and_begins_anew() {
    let stub = Stub::start(false).await;
    stub.hold("a", 1).await;
    stub.sandbox.faults().add(Rule::refusal(500).verb("list").resource("pods").times(1));
    let profile = inventory(Profile::Ascend910b8);
    let agent = Agent::start(stub.client.clone(), stub.root.path(), profile);
    until("a problem", async || agent.reasons(Area::Pods) == ["server-error"]).await;
    annotated(&stub.client, "a").await;
    assert_eq!(agent.reasons(Area::Pods), Vec::<&str>::new());
    stub.sandbox.api().store.drop_watches(None);
    let map = agent.pods.clone();
    create(&stub.client, pod("later", NPU, 1)).await;
    until("the watch goes on", async || map.borrow().len() == 2).await;
}

#[tokio::test]
async fn a_missing_permission_is_named_and_the_annotation_follows_when_it_is_given() {
    let stub = Stub::start(true).await;
    stub.hold("a", 1).await;
    let account = json!({ "metadata": { "name": "agent" } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    stub.sandbox.create(accounts, &account).await.unwrap();
    let path = format!("{accounts}/agent/token");
    let token = stub.sandbox.create(&path, &json!({"spec": {}})).await.unwrap();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let grant = async |name: &str, verbs: Value| {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
        stub.sandbox.create(&format!("{rbac}/clusterroles"), &role).await.unwrap();
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": "default"}]});
        stub.sandbox.create(&format!("{rbac}/clusterrolebindings"), &binding).await.unwrap();
    };
    let client = stub.sandbox.http_client_as(&token).unwrap();
    let agent = Agent::start(client, stub.root.path(), inventory(Profile::Ascend910b8));
    until("the watch is refused", async || agent.reasons(Area::Pods) == ["forbidden"]).await;
    let message = agent.problems.list().remove(0).message;
    assert!(message.contains("may not list and watch pods"), "{message}");
    grant("watch", json!(["get", "list", "watch"])).await;
    until("the patch is refused", async || agent.reasons(Area::Annotate) == ["forbidden"]).await;
    let message = agent.problems.list().remove(0).message;
    assert!(message.contains("may not patch pods"), "{message}");
    grant("patch", json!(["patch"])).await;
    annotated(&stub.client, "a").await;
    until("no problem is left", async || agent.problems.list().is_empty()).await;
}

#[tokio::test]
async fn an_agent_that_starts_again_writes_nothing() {
    let stub = Stub::start(false).await;
    stub.hold("a", 2).await;
    let start = || {
        let profile = inventory(Profile::Ascend910b8);
        Agent::start(stub.client.clone(), stub.root.path(), profile)
    };
    let first = start();
    let before = annotated(&stub.client, "a").await;
    drop(first);
    let second = start();
    let mut devices = second.devices.clone();
    let held = devices.wait_for(|pods| !pods.is_empty());
    tokio::time::timeout(PATIENCE, held).await.unwrap().unwrap();
    // What is to be seen is that nothing comes: some time must pass.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = get(&stub.client, "a").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    let words = ["applied", "conflict", "server-error", "invalid"];
    assert_eq!(words.map(|word| second.metrics.written(word)), [0; 4]);
}

#[tokio::test]
async fn the_address_of_the_node_is_asked_until_it_is_told() {
    let root = tempfile::tempdir().unwrap();
    let node = NodeSpec::new(NODE, Profile::Cpu, 0, root.path());
    let sandbox = sandbox(vec![node], false).await;
    sandbox.faults().add(Rule::refusal(500).verb("get").resource("nodes").times(2));
    let problems = Problems::default();
    let client = sandbox.client();
    let asking = pods::node_address(&client, NODE, &problems);
    let address = tokio::time::timeout(PATIENCE, asking).await.unwrap();
    assert_eq!(address, std::net::IpAddr::from([10, 254, 0, 1]));
    assert_eq!(problems.list(), []);
}
