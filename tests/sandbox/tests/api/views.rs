//! What a watcher has put together from events is what a list shows, at every revision.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use muster_sandbox::Sandbox;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::caller::*;

#[derive(Debug, Clone)]
enum Op {
    Create { at: (u8, u8), label: Option<u8> },
    Relabel { at: (u8, u8), label: Option<u8> },
    Fill { at: (u8, u8), data: u8 },
    Delete { at: (u8, u8) },
}

#[derive(Debug, Clone)]
struct Plan {
    namespace: Option<u8>,
    labels: &'static str,
    fields: &'static str,
    /// Opened after this many writes, from the revision of the moment.
    from: usize,
    /// Opened then, or from the log when all is written.
    live: bool,
    way: Way,
}

type View = BTreeMap<(String, String), Value>;

fn ops() -> impl Strategy<Value = Op> {
    let at = || (0..2_u8, 0..4_u8);
    let label = || prop::option::weighted(0.8, 0..3_u8);
    prop_oneof![
        3 => (at(), label()).prop_map(|(at, label)| Op::Create { at, label }),
        3 => (at(), label()).prop_map(|(at, label)| Op::Relabel { at, label }),
        2 => (at(), 0..3_u8).prop_map(|(at, data)| Op::Fill { at, data }),
        2 => at().prop_map(|at| Op::Delete { at }),
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let labels = ["", "a=1", "a!=1", "a", "!a", "a in (0,2)", "a notin (0),a", "a>0"];
    let fields = ["", "metadata.name=n1", "metadata.name!=n1", "metadata.namespace=default"];
    (
        prop::option::of(0..2_u8),
        prop::sample::select(labels.to_vec()),
        prop::sample::select(fields.to_vec()),
        0..40_usize,
        any::<bool>(),
        prop_oneof![Just(Way::Process), Just(Way::Http)],
    )
        .prop_map(|(namespace, labels, fields, from, live, way)| Plan {
            namespace,
            labels,
            fields,
            from,
            live,
            way,
        })
}

fn namespace(index: u8) -> &'static str {
    ["default", "kube-public"][usize::from(index)]
}

async fn perform(sandbox: &Sandbox, op: &Op) {
    let all = |at: &(u8, u8)| format!("/api/v1/namespaces/{}/configmaps", namespace(at.0));
    let one = |at: &(u8, u8)| format!("{}/n{}", all(at), at.1);
    let answer = match op {
        Op::Create { at, label } => {
            let mut object = json!({"metadata": {"name": format!("n{}", at.1)}});
            if let Some(label) = label {
                object["metadata"]["labels"] = json!({"a": label.to_string()});
            }
            post(sandbox, &all(at), &object).await
        }
        Op::Relabel { at, label } => {
            let body = json!({"metadata": {"labels": {"a": label.map(|l| l.to_string())}}});
            call(sandbox, Method::PATCH, &one(at), MERGE, body.to_string()).await
        }
        Op::Fill { at, data } => {
            let body = json!({"data": {"x": data.to_string()}});
            call(sandbox, Method::PATCH, &one(at), MERGE, body.to_string()).await
        }
        Op::Delete { at } => call(sandbox, Method::DELETE, &one(at), JSON, "").await,
    };
    assert!(matches!(answer.code, 200 | 201 | 404 | 409), "{}", answer.body);
}

// === impl Plan ===

impl Plan {
    fn url(&self, more: &str) -> String {
        let place =
            self.namespace.map_or(String::new(), |n| format!("namespaces/{}/", namespace(n)));
        format!(
            "/api/v1/{place}configmaps?labelSelector={}&fieldSelector={}&{more}",
            quoted(self.labels),
            quoted(self.fields)
        )
    }

    async fn open(&self, sandbox: &Sandbox, revision: u64) -> Watch {
        let more = format!("watch=1&resourceVersion={revision}&allowWatchBookmarks=true");
        Watch::open(sandbox, self.way, &self.url(&more)).await
    }

    async fn list(&self, sandbox: &Sandbox, revision: u64) -> View {
        let more = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
        let list = get(sandbox, &self.url(&more)).await.expect(200);
        assert_eq!(self::revision(&list), revision);
        list["items"].as_array().unwrap().iter().map(|item| (key(item), item.clone())).collect()
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (text("namespace"), text("name"))
}

/// Adds one event to the view; it must be one that the view allows.
fn follow(view: &mut View, event: &Value) {
    let mut object = event["object"].clone();
    let known = view.contains_key(&key(&object));
    for type_ in ["kind", "apiVersion"] {
        assert!(object.as_object_mut().unwrap().remove(type_).is_some(), "{event}");
    }
    match event["type"].as_str().unwrap() {
        "ADDED" if !known => drop(view.insert(key(&object), object)),
        "MODIFIED" if known => drop(view.insert(key(&object), object)),
        "DELETED" if known => drop(view.remove(&key(&object))),
        _ => panic!("known: {known}, but {event}"),
    }
}

async fn a_view_is_the_list(ops: Vec<Op>, plans: Vec<Plan>) {
    let (sandbox, clock) = by_hand().await;
    let mut open: Vec<(Plan, u64, Option<Watch>)> = Vec::new();
    for count in 0..=ops.len() {
        let revision = sandbox.api().store.revision();
        for plan in plans.iter().filter(|plan| plan.from.min(ops.len()) == count) {
            let watch = if plan.live { Some(plan.open(&sandbox, revision).await) } else { None };
            open.push((plan.clone(), revision, watch));
        }
        if let Some(op) = ops.get(count) {
            perform(&sandbox, op).await;
        }
    }
    let last = sandbox.api().store.revision();
    for (plan, start, watch) in open {
        let mut watch = match watch {
            Some(watch) => watch,
            None => plan.open(&sandbox, start).await,
        };
        clock.advance(Duration::from_secs(10));
        let events = watch.until(last).await;
        let mut events = events.iter().peekable();
        let mut view = plan.list(&sandbox, start).await;
        for revision in start + 1..=last {
            if let Some(event) =
                events.next_if(|event| self::revision(&event["object"]) == revision)
            {
                follow(&mut view, event);
            }
            assert_eq!(view, plan.list(&sandbox, revision).await, "{plan:?} at {revision}");
        }
        assert_eq!(events.next(), None, "an event out of order, or of no write");
    }
}

#[test]
fn a_watchers_view_equals_the_list_at_every_revision() {
    law(80, (vec(ops(), 1..40), vec(plans(), 1..5)), |(ops, plans)| a_view_is_the_list(ops, plans));
}
