//! Faults from a seed, and clients that keep a true view through all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client};
use muster_sandbox::Sandbox;
use muster_sandbox::faults::{Fault, Rule};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use super::caller::*;
use super::panics;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn an_injected_refusal_looks_like_a_real_one_and_strikes_only_its_route() {
    let sandbox = bare().await;
    for (code, reason) in [
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ] {
        sandbox.faults().add(Rule::refusal(code).verb("list").resource("configmaps").times(1));
        http(&sandbox, Method::GET, &MAPS.replace("configmaps", "secrets"), JSON, "")
            .await
            .expect(200);
        http(&sandbox, Method::GET, &format!("{MAPS}/x"), JSON, "").await.expect(404);
        let answer = http(&sandbox, Method::GET, MAPS, JSON, "").await;
        let retry = answer.headers.get("retry-after").map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(retry.is_some(), code == 429, "{code}: {retry:?}");
        assert_eq!(answer.expect(code)["reason"], reason);
        http(&sandbox, Method::GET, MAPS, JSON, "").await.expect(200);
    }
}

#[tokio::test]
async fn latency_is_waited_for_on_the_hand_moved_clock() {
    let (sandbox, clock) = by_hand().await;
    let sandbox = Arc::new(sandbox);
    let wait = Fault::Latency(Duration::from_secs(7));
    sandbox.faults().add(Rule::new(wait).verb("list").resource("configmaps").times(1));
    let slow = {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { http(&sandbox, Method::GET, MAPS, JSON, "").await.code })
    };
    eventually("the fault has struck", async || sandbox.faults().struck() == 1).await;
    clock.advance(Duration::from_secs(6));
    http(&sandbox, Method::GET, MAPS, JSON, "").await.expect(200);
    assert!(!slow.is_finished(), "it answered before its time");
    clock.advance(Duration::from_secs(1));
    assert_eq!(slow.await.unwrap(), 200);
}

/// Backs off so briefly that a test can wait for it.
#[derive(Clone, Debug)]
struct Impatient;

impl Iterator for Impatient {
    type Item = Duration;
    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(2))
    }
}

impl kube::runtime::utils::Backoff for Impatient {
    fn reset(&mut self) {}
}

fn reflect(client: Client, streaming: bool) -> (Store<ConfigMap>, JoinHandle<()>) {
    let (reader, writer) = reflector::store();
    let mut config = watcher::Config::default().page_size(3);
    if streaming {
        config = config.streaming_lists();
    }
    let stream = watcher(Api::<ConfigMap>::all(client), config).backoff(Impatient);
    let events = reflector::reflector(writer, stream);
    (reader, tokio::spawn(events.for_each(async |_| {})))
}

type Seen = BTreeMap<(String, String), String>;

/// What each reconciliation saw last, and what is gone.
fn control(client: Client) -> (Arc<Mutex<Seen>>, Store<ConfigMap>, JoinHandle<()>) {
    let seen = Arc::new(Mutex::new(Seen::new()));
    let controller = Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
        .trigger_backoff(Impatient);
    let store = controller.store();
    let note = async |map: Arc<ConfigMap>, seen: Arc<Mutex<Seen>>| {
        let metadata = &map.metadata;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let key = (text(&metadata.namespace), text(&metadata.name));
        seen.lock().insert(key, text(&metadata.resource_version));
        Ok::<_, std::convert::Infallible>(Action::await_change())
    };
    let runs = controller.run(note, |_, _, _| Action::await_change(), seen.clone());
    (seen, store, tokio::spawn(runs.for_each(async |_| {})))
}

async fn listed(sandbox: &Sandbox) -> Seen {
    let list = get(sandbox, "/api/v1/configmaps").await.expect(200);
    let items = list["items"].as_array().unwrap();
    let text = |item: &serde_json::Value, field: &str| {
        item["metadata"][field].as_str().unwrap().to_owned()
    };
    let entry =
        |item| ((text(item, "namespace"), text(item, "name")), text(item, "resourceVersion"));
    items.iter().map(entry).collect()
}

fn held(store: &Store<ConfigMap>) -> Seen {
    let object = |map: &Arc<ConfigMap>| {
        let key = ObjectRef::from_obj(&**map);
        let version = map.metadata.resource_version.clone().unwrap_or_default();
        ((key.namespace.clone().unwrap_or_default(), key.name), version)
    };
    store.state().iter().map(object).collect()
}

/// Writes through all that goes wrong, and tries again until it went through.
async fn write(client: &Client, n: u32) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let name = format!("m{}", n % 9);
    loop {
        let outcome = if n % 4 == 3 {
            maps.delete(&name, &Default::default()).await.map(drop)
        } else {
            let patch = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"n": n.to_string()}});
            let parameters = kube::api::PatchParams::apply("writer").force();
            maps.patch(&name, &parameters, &kube::api::Patch::Apply(&patch)).await.map(drop)
        };
        match outcome {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn views_survive(seed: u64) {
    panics::watch();
    let mut sandbox = Sandbox::builder().controllers(None).seed(seed).start().await.unwrap();
    // Clients wait a second after 429: a few of them are enough.
    for (code, chance) in [(409, 0.1), (429, 0.01), (500, 0.1), (503, 0.02)] {
        sandbox.faults().add(Rule::refusal(code).resource("configmaps").chance(chance));
    }
    let (here, there) = (sandbox.client(), sandbox.http_client().unwrap());
    let (first, a) = reflect(here.clone(), false);
    let (second, b) = reflect(there.clone(), false);
    let (third, c) = reflect(there.clone(), true);
    let (seen, fourth, d) = control(there.clone());
    for rule in [
        Rule::new(Fault::DropWatches).resource("configmaps").chance(0.1),
        Rule::new(Fault::Compact).resource("configmaps").chance(0.1),
        Rule::new(Fault::Latency(Duration::from_millis(3))).chance(0.2),
    ] {
        sandbox.faults().add(rule);
    }
    for n in 0..120 {
        write(if n % 2 == 0 { &here } else { &there }, n).await;
        if n % 50 == 49 {
            sandbox.restart().await.unwrap();
        }
    }
    assert!(sandbox.faults().struck() > 20, "seed {seed}: little went wrong");
    sandbox.faults().clear();
    let truth = listed(&sandbox).await;
    for (name, store) in
        [("in process", &first), ("http", &second), ("streaming", &third), ("controller", &fourth)]
    {
        let what = format!("seed {seed}, {name}: the view is the list");
        eventually(&what, async || held(store) == truth).await;
    }
    let what = format!("seed {seed}: every object was reconciled as it is now");
    eventually(&what, async || {
        let seen = seen.lock().clone();
        truth.iter().all(|(key, version)| seen.get(key) == Some(version))
    })
    .await;
    for task in [a, b, c, d] {
        assert!(!task.is_finished(), "seed {seed}: a watcher gave up");
        task.abort();
    }
    panics::assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflectors_and_controllers_keep_a_true_view_through_every_fault() {
    for seed in [1, 42] {
        views_survive(seed).await;
    }
}

#[tokio::test]
async fn a_restart_keeps_objects_revisions_and_custom_resources() {
    let mut sandbox = bare().await;
    post(&sandbox, MAPS, &json!({"metadata": {"name": "x"}})).await.expect(201);
    let crd = json!({"metadata": {"name": "things.x.dev"}, "spec": {"group": "x.dev",
        "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&sandbox, crds, &crd).await.expect(201);
    let thing = json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "t"}});
    post(&sandbox, "/apis/x.dev/v1/things", &thing).await.expect(201);
    let (url, revision) = (sandbox.url(), sandbox.api().store.revision());
    let before = get(&sandbox, "/apis/x.dev/v1/things/t").await.expect(200);
    let path = format!("{MAPS}?watch=1&resourceVersion={revision}");
    let mut http_watch = Watch::open(&sandbox, Way::Http, &path).await;
    let mut process_watch = Watch::open(&sandbox, Way::Process, &path).await;
    sandbox.restart().await.unwrap();
    assert_eq!(http_watch.next().await, None, "the connection is cut");
    assert_eq!(process_watch.next().await, None);
    assert_eq!((sandbox.url(), sandbox.api().store.revision()), (url, revision));
    let after = http(&sandbox, Method::GET, "/apis/x.dev/v1/things/t", JSON, "").await.expect(200);
    assert_eq!(before, after);
    // A watch from before the restart goes on where it was.
    let mut again = Watch::open(&sandbox, Way::Http, &path).await;
    post(&sandbox, MAPS, &json!({"metadata": {"name": "y"}})).await.expect(201);
    assert_eq!(again.next().await.unwrap()["object"]["metadata"]["name"], "y");
}
