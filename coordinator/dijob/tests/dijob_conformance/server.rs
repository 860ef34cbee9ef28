//! Server cases: a request, what it writes, and what it is answered.

use std::sync::Arc;

use muster_dijob::make::Settings;
use muster_dijob::server::answer::Body;
use muster_dijob::server::{self, Begun, Next, Outcome, Request, Write};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::matching::Matching;

/// Runs a case.
pub fn run(case: &Value) -> Result<(), String> {
    let mut cluster = Cluster::new(&case["given"]["objects"]);
    let asked = &case["request"];
    let text = |key: &str| asked[key].as_str().unwrap_or_default();
    let body = match asked["rawBody"].as_str() {
        Some(raw) => raw.to_owned(),
        None if asked["body"].is_null() => String::new(),
        None => asked["body"].to_string(),
    };
    let (method, path, query) = (text("method"), text("path"), text("query"));
    let request = Request { method, path, query, body: body.as_bytes() };
    let forbidden = case["given"]["apiFault"] == "forbidden";
    let mut writes = Vec::new();
    let answer = match server::begin(&cluster, &Settings::default(), &request, 42) {
        Begun::Answer(answer) => answer,
        Begun::Work(mut work) => loop {
            let write = match work.advance() {
                Next::Done(answer) => break answer,
                Next::Write(write) => write,
            };
            work.done(match write {
                Write::Create(_) if forbidden => {
                    Outcome::Refused("pods \"x\" is forbidden: exceeded quota".to_owned())
                }
                Write::Create(pod) => {
                    writes.push(json!({"verb": "create", "object": pod.to_value()}));
                    let (space, name) = (pod.namespace().to_owned(), pod.name().to_owned());
                    let uid = format!("uid-{name}");
                    cluster.pods.insert((space, name), Arc::new(*pod));
                    Outcome::Created(uid)
                }
                Write::Delete(named, _) => {
                    writes.push(
                        json!({"verb": "delete", "kind": "Pod", "namespace": named.namespace,
                        "name": named.name, "gracePeriodSeconds": 0}),
                    );
                    cluster.pods.remove(&(named.namespace, named.name));
                    Outcome::Deleted
                }
            });
        },
    };
    let expect = &case["expect"];
    let mut matching = Matching::default();
    matching.unordered = method == "GET";
    let mut expected = expect["actions"].as_array().cloned().unwrap_or_default();
    // Deletes that come one after the other may come in any order.
    sort_deletes(&mut writes);
    sort_deletes(&mut expected);
    matching.compare(&Value::Array(writes), &Value::Array(expected), "actions")?;
    if u64::from(answer.status) != expect["http"]["status"].as_u64().unwrap() {
        return Err(format!("{answer:?} instead of {}", expect["http"]));
    }
    match (&answer.body, expect["http"]["bodyText"].as_str()) {
        (Body::Text(found), Some(expected)) => matching.text(found, expected, "text"),
        (Body::Json(found), None) => matching.compare(found, &expect["http"]["body"], "body"),
        (found, expected) => Err(format!("{found:?} instead of {expected:?}")),
    }
}

fn sort_deletes(actions: &mut [Value]) {
    let is_delete = |action: &Value| action["verb"] == "delete";
    for run in actions.chunk_by_mut(|one, next| is_delete(one) && is_delete(next)) {
        run.sort_by_key(|action| action["name"].to_string());
    }
}
