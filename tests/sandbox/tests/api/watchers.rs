//! Watchers that read nothing or go away: writers never wait, nothing is kept.

use std::time::Duration;

use http::Method;
use muster_sandbox::Sandbox;
use muster_sandbox::clock::Clock;
use muster_sandbox::store::{Expect, Limits};
use serde_json::json;

use super::caller::*;
use super::panics;
use super::wire::Wire;

const WATCH: &str = "/api/v1/configmaps?watch=1&resourceVersion=";

/// Writes straight into the store: the fastest writer there is.
fn flood(sandbox: &Sandbox, writes: u32) {
    let store = &sandbox.api().store;
    let key = ("default".to_owned(), "x".to_owned());
    for n in 0..writes {
        let live = store.get("configmaps", &key.0, &key.1);
        let expect = live.map_or(Expect::Absent, |o| Expect::Revision(o.revision));
        let value = json!({"metadata": {"namespace": "default", "name": "x"},
            "data": {"n": n.to_string()}});
        store.put("configmaps", key.clone(), expect, value).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_watcher_never_blocks_writers_and_ends_with_410() {
    panics::watch();
    let limits = Limits { log: 1000, backlog: 1000 };
    let sandbox = Sandbox::builder().controllers(None).limits(limits).start().await.unwrap();
    let revision = sandbox.api().store.revision();
    let path = format!("{WATCH}{revision}");
    let mut in_process = Watch::open(&sandbox, Way::Process, &path).await;
    let mut over_http = Watch::open(&sandbox, Way::Http, &path).await;
    let mut raw = Wire::open(&sandbox).await;
    raw.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    eventually("three watchers", async || sandbox.api().store.watchers("configmaps") == 3).await;
    // Were a writer to wait for them, this would not end: nobody reads.
    flood(&sandbox, 50_000);
    assert_eq!(sandbox.api().store.watchers("configmaps"), 0, "all three were too slow");
    for watch in [&mut in_process, &mut over_http] {
        let (mut last, mut events) = (json!(null), 0);
        while let Some(event) = watch.next().await {
            last = event;
            events += 1;
        }
        assert!(events < 50_000, "it was never cut off");
        assert_eq!(last["type"], "ERROR", "after {events} events");
        assert_eq!(
            (&last["object"]["code"], &last["object"]["reason"]),
            (&json!(410), &json!("Expired"))
        );
    }
    panics::assert_none();
}

#[tokio::test]
async fn a_watcher_that_disconnects_is_forgotten() {
    let sandbox = bare().await;
    let revision = sandbox.api().store.revision();
    let mut open = Vec::new();
    for n in 0..50 {
        let way = if n % 2 == 0 { Way::Process } else { Way::Http };
        let field = if n % 3 == 0 { "&fieldSelector=metadata.name%3Dx" } else { "" };
        open.push(Watch::open(&sandbox, way, &format!("{WATCH}{revision}{field}")).await);
    }
    assert_eq!(sandbox.api().store.watchers("configmaps"), 50);
    let kept = open.split_off(45);
    drop(open);
    eventually("five are left", async || sandbox.api().store.watchers("configmaps") == 5).await;
    drop(kept);
    eventually("none is left", async || sandbox.api().store.watchers("configmaps") == 0).await;
    // Also when the client's socket dies with a half-read line.
    let mut raw = Wire::open(&sandbox).await;
    raw.send(format!("GET {WATCH}{revision} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    eventually("one more", async || sandbox.api().store.watchers("configmaps") == 1).await;
    drop(raw);
    eventually("and gone", async || sandbox.api().store.watchers("configmaps") == 0).await;
}

#[tokio::test]
async fn an_old_revision_is_410_for_lists_pages_and_watches() {
    let sandbox = bare().await;
    flood(&sandbox, 5);
    let all = "/api/v1/namespaces/default/configmaps";
    post(&sandbox, all, &json!({"metadata": {"name": "y"}})).await.expect(201);
    let page = get(&sandbox, &format!("{all}?limit=1")).await.expect(200);
    let (old, token) = (revision(&page), page["metadata"]["continue"].as_str().unwrap());
    flood(&sandbox, 1);
    sandbox.api().store.compact();
    for query in
        [format!("resourceVersion={old}&resourceVersionMatch=Exact"), format!("continue={token}")]
    {
        let status =
            http(&sandbox, Method::GET, &format!("{all}?{query}"), JSON, "").await.expect(410);
        assert_eq!(status["reason"], "Expired");
    }
    let mut watch = Watch::open(&sandbox, Way::Http, &format!("{WATCH}{old}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watcher_that_was_cut_off_gets_no_bookmark_for_what_it_missed() {
    panics::watch();
    let clock = Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap());
    let builder = Sandbox::builder().controllers(None).clock(clock.clone());
    let limits = Limits { log: 100, backlog: 100 };
    let sandbox = builder.limits(limits).start().await.unwrap();
    let revision = sandbox.api().store.revision();
    let path = format!("{WATCH}{revision}&allowWatchBookmarks=true");
    let mut watch = Watch::open(&sandbox, Way::Process, &path).await;
    flood(&sandbox, 500);
    clock.advance(Duration::from_secs(10));
    let mut types = Vec::new();
    while let Some(event) = watch.next().await {
        types.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(types.len(), 101);
    assert!(!types.contains(&"BOOKMARK".to_owned()), "{types:?}");
    assert_eq!(types.last().unwrap(), "ERROR");
}
