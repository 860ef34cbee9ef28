//! Admission against a store: plugins, webhooks over TLS on a socket, policies.

mod plugins;
mod policies;
mod server;
mod webhooks;

use std::collections::HashMap;
use std::sync::Arc;

use muster_objects::meta;
use serde_json::{Value, json};

use super::*;
use crate::auth::User;
use crate::store::{Expect, Limits, Store};

/// The few kinds that the tests name.
struct Few;

impl Kinds for Few {
    fn find(&self, api_version: &str, kind: &str) -> Option<KnownKind> {
        let known = api_version == "v1" && kind == "ConfigMap";
        known.then(|| KnownKind { resource: "configmaps".into(), namespaced: true })
    }

    fn versions(&self, group: &str, _: &str) -> Vec<String> {
        if group == "example.com" { vec!["v1".into(), "v2".into()] } else { vec!["v1".into()] }
    }
}

fn put(store: &Store, resource: &str, value: Value) {
    let key = (meta::namespace(&value).to_owned(), meta::name(&value).to_owned());
    let there = store.get(resource, &key.0, &key.1);
    let expect = there.map_or(Expect::Absent, |object| Expect::Revision(object.revision));
    store.put(resource, key, expect, value).unwrap();
}

fn store() -> Arc<Store> {
    let store = Store::new(Limits::default());
    put(
        &store,
        "namespaces",
        json!({"metadata": {"name": "a", "labels": {"team": "blue"}}, "status": {"phase": "Active"}}),
    );
    put(
        &store,
        "namespaces",
        json!({"metadata": {"name": "old"}, "status": {"phase": "Terminating"}}),
    );
    put(&store, "serviceaccounts", json!({"metadata": {"namespace": "a", "name": "default"}}));
    Arc::new(store)
}

fn admission(store: &Arc<Store>) -> Admission {
    Admission::new(store.clone(), Arc::new(Few), HashMap::new())
}

/// A create of an object of one of the kinds below.
fn create<'a>(user: &'a User, resource: &'a str, object: Value) -> Attempt<'a> {
    let (group, plural, kind, namespace) = match resource {
        "pods" => ("", "pods", "Pod", "a"),
        "nodes" => ("", "nodes", "Node", ""),
        "namespaces" => ("", "namespaces", "Namespace", ""),
        "leases" => ("coordination.k8s.io", "leases", "Lease", "kube-node-lease"),
        "priorityclasses" => ("scheduling.k8s.io", "priorityclasses", "PriorityClass", ""),
        "widgets" => ("example.com", "widgets", "Widget", "a"),
        _ => ("", "configmaps", "ConfigMap", "a"),
    };
    Attempt {
        operation: Operation::Create,
        kind: Gvk { group, version: "v1", kind },
        resource: Gvr { group, version: "v1", resource: plural },
        subresource: "",
        namespace,
        name: "",
        object: Some(object),
        old: None,
        user,
        dry_run: false,
        options: Value::Null,
        warnings: Vec::new(),
    }
}

fn config_map(data: Value) -> Value {
    json!({"metadata": {"namespace": "a", "name": "c"}, "data": data})
}
