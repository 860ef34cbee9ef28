//! Tokens, callers and reviews against a store.

mod access;
mod tokens;

use muster_objects::meta;

use super::*;
use crate::store::{Expect, Limits};

fn put(store: &Store, resource: &str, value: Value) {
    let key = (meta::namespace(&value).to_owned(), meta::name(&value).to_owned());
    let there = store.get(resource, &key.0, &key.1);
    let expect = there.map_or(Expect::Absent, |object| Expect::Revision(object.revision));
    store.put(resource, key, expect, value).unwrap();
}

fn store() -> Store {
    let store = Store::new(Limits::default());
    for (resource, value) in bootstrap() {
        put(&store, resource, value);
    }
    let named =
        |name: &str, uid: &str| json!({"metadata": {"namespace": "a", "name": name, "uid": uid}});
    put(&store, "serviceaccounts", named("sa", "u-sa"));
    put(&store, "secrets", named("s", "u-secret"));
    put(&store, "nodes", json!({"metadata": {"name": "n1", "uid": "u-node"}}));
    put(
        &store,
        "pods",
        json!({"metadata": {"namespace": "a", "name": "p", "uid": "u-pod"},
            "spec": {"nodeName": "n1", "serviceAccountName": "sa"}}),
    );
    store
}

fn clock() -> Clock {
    Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap())
}

fn auth(mode: Mode) -> Auth {
    Auth::new(mode, clock()).unwrap().with_token("root", User::admin())
}

fn request(spec: Value) -> Value {
    json!({"spec": spec})
}

fn token(auth: &Auth, store: &Store, request: Value) -> String {
    let answer = auth.issue("a", "sa", request, store).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}
