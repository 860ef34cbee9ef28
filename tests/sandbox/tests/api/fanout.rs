//! Many watchers, many writers: each watcher sees every write that concerns it, once and in order.

use std::collections::BTreeMap;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use muster_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const NODES: usize = 20;
const WRITERS: usize = 4;
const TURNS: usize = 40;

/// What a write did: the event it must make, the pod, the revision it left.
type Seen = (u64, String, String);

async fn call(sandbox: &Sandbox, method: Method, path: &str, media: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Full::from(body))
        .unwrap();
    let response = sandbox.api().serve(request).await;
    let code = response.status();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert!(code.is_success(), "{path}: {answer}");
    answer
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Reads a watch until it has shown `wanted` events.
async fn follow(sandbox: &Sandbox, node: usize, since: u64, wanted: usize) -> Vec<Seen> {
    let path = format!(
        "/api/v1/pods?watch=true&resourceVersion={since}&fieldSelector=spec.nodeName%3Dnode-{node}"
    );
    let request = Request::get(path).body(Full::from("")).unwrap();
    let mut body = sandbox.api().serve(request).await.into_body();
    let (mut seen, mut text) = (Vec::new(), Vec::new());
    while seen.len() < wanted {
        let frame = body.frame().await.expect("the watch goes on").unwrap();
        text.extend_from_slice(&frame.into_data().unwrap());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            seen.push((revision_of(object), event["type"].as_str().unwrap().to_owned(), name));
        }
    }
    seen
}

/// A pod's life on one node, turn after turn; returns what was written, by node.
async fn write(sandbox: &Sandbox, writer: usize) -> BTreeMap<usize, Vec<Seen>> {
    let mut written: BTreeMap<usize, Vec<Seen>> = BTreeMap::new();
    for turn in 0..TURNS {
        let node = (turn * 7 + writer) % NODES;
        let name = format!("pod-{writer}-{turn}");
        let mut note = |kind: &str, object: &Value| {
            let seen = (revision_of(object), kind.to_owned(), name.clone());
            written.entry(node).or_default().push(seen);
        };
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": format!("node-{node}"),
                "containers": [{"name": "main", "image": "example/main:1"}],
            },
        });
        let collection = "/api/v1/namespaces/default/pods";
        let path = format!("{collection}/{name}");
        let made = call(sandbox, Method::POST, collection, "application/json", &pod).await;
        note("ADDED", &made);
        let status = json!({"status": {"phase": "Running", "message": format!("turn {turn}")}});
        let media = "application/merge-patch+json";
        let mut now = call(sandbox, Method::PATCH, &format!("{path}/status"), media, &status).await;
        note("MODIFIED", &now);
        now["metadata"]["labels"] = json!({"turn": turn.to_string()});
        let now = call(sandbox, Method::PUT, &path, "application/json", &now).await;
        note("MODIFIED", &now);
        if turn % 2 == 0 {
            let path = format!("{path}?gracePeriodSeconds=0");
            let gone = call(sandbox, Method::DELETE, &path, "application/json", &Value::Null).await;
            // The answer shows the pod as it was; the event has a later revision of its own.
            note("DELETED", &gone);
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_sees_every_write_to_its_node_once_and_in_order() {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let account = json!({"metadata": {"name": "default"}});
    sandbox.create("/api/v1/namespaces/default/serviceaccounts", &account).await.unwrap();
    let sandbox = std::sync::Arc::new(sandbox);
    let since = sandbox.api().store.revision();

    // How much each watcher has to wait for is known beforehand: the turns are fixed.
    let mut wanted = [0; NODES];
    for (writer, turn) in (0..WRITERS).flat_map(|w| (0..TURNS).map(move |t| (w, t))) {
        wanted[(turn * 7 + writer) % NODES] += if turn % 2 == 0 { 4 } else { 3 };
    }
    let mut watchers = JoinSet::new();
    for (node, wanted) in wanted.iter().copied().enumerate() {
        let sandbox = sandbox.clone();
        watchers.spawn(async move { (node, follow(&sandbox, node, since, wanted).await) });
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let sandbox = sandbox.clone();
        writers.spawn(async move { write(&sandbox, writer).await });
    }
    let mut written: BTreeMap<usize, Vec<Seen>> = BTreeMap::new();
    while let Some(done) = writers.join_next().await {
        for (node, seen) in done.unwrap() {
            written.entry(node).or_default().extend(seen);
        }
    }
    while let Some(done) = watchers.join_next().await {
        let (node, seen) = done.unwrap();
        let revisions: Vec<u64> = seen.iter().map(|(revision, ..)| *revision).collect();
        assert!(revisions.is_sorted_by(|a, b| a < b), "node-{node}: {revisions:?}");
        let (mut due, mut seen) = (written.remove(&node).unwrap_or_default(), seen);
        for (revision, kind, _) in due.iter_mut().chain(&mut seen) {
            if kind == "DELETED" {
                *revision = 0;
            }
        }
        due.sort();
        seen.sort();
        assert_eq!(seen, due, "node-{node}");
    }
    assert!(written.is_empty(), "nobody watched {:?}", written.keys());
}
