//! Time that only the test moves: watches, bookmarks, tokens, events.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::caller::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over_and_not_before() {
    let (sandbox, clock) = by_hand().await;
    for way in [Way::Process, Way::Http] {
        let revision = sandbox.api().store.revision();
        let path =
            format!("/api/v1/configmaps?watch=1&timeoutSeconds=30&resourceVersion={revision}");
        let mut watch = Watch::open(&sandbox, way, &path).await;
        clock.advance(29 * SECOND);
        let map = json!({"metadata": {"generateName": "late-"}});
        post(&sandbox, "/api/v1/namespaces/default/configmaps", &map).await.expect(201);
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        clock.advance(SECOND);
        assert_eq!(watch.next().await, None);
    }
    eventually("no watcher", async || sandbox.api().store.watchers("configmaps") == 0).await;
}

#[tokio::test]
async fn a_watch_ends_in_time_though_writers_never_rest() {
    let (sandbox, clock) = by_hand().await;
    let all = "/api/v1/namespaces/default/configmaps";
    let mut watch =
        Watch::open(&sandbox, Way::Process, &format!("{all}?watch=1&timeoutSeconds=5")).await;
    clock.advance(5 * SECOND);
    let mut events = 0;
    loop {
        // There is always something to say.
        let map = json!({"metadata": {"generateName": "busy-"}});
        post(&sandbox, all, &map).await.expect(201);
        if watch.next().await.is_none() {
            break;
        }
        events += 1;
        assert!(events < 100, "it goes on though its time is over");
    }
}

#[tokio::test]
async fn bookmarks_come_every_ten_seconds_and_only_to_those_who_asked() {
    let (sandbox, clock) = by_hand().await;
    let all = "/api/v1/namespaces/default/configmaps";
    let revision = sandbox.api().store.revision();
    let path = format!("{all}?watch=1&timeoutSeconds=60&resourceVersion={revision}");
    let mut silent = Watch::open(&sandbox, Way::Process, &path).await;
    let mut told =
        Watch::open(&sandbox, Way::Process, &format!("{path}&allowWatchBookmarks=1")).await;
    for _ in 0..3 {
        // A write elsewhere moves the revision, and the bookmark tells.
        let other = json!({"metadata": {"generateName": "s-"}});
        post(&sandbox, "/api/v1/namespaces/default/secrets", &other).await.expect(201);
        clock.advance(10 * SECOND);
        let bookmark = told.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(super::caller::revision(&bookmark["object"]), sandbox.api().store.revision());
    }
    clock.advance(60 * SECOND);
    assert_eq!(silent.next().await, None, "no bookmark for one who did not ask");
}

#[tokio::test]
async fn a_token_is_good_until_its_time_is_over() {
    let (sandbox, clock) = by_hand().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&sandbox, accounts, &json!({"metadata": {"name": "sa"}})).await.expect(201);
    let ask = json!({"spec": {"expirationSeconds": 600}});
    let answer = post(&sandbox, &format!("{accounts}/sa/token"), &ask).await.expect(201);
    let token = answer["status"]["token"].clone();
    let review = async || {
        let ask = json!({"spec": {"token": token}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        http(&sandbox, Method::POST, path, JSON, ask.to_string()).await.expect(201)["status"].take()
    };
    assert_eq!(review().await["authenticated"], true);
    clock.advance(599 * SECOND);
    assert_eq!(review().await["user"]["username"], "system:serviceaccount:default:sa");
    // Clocks may differ by a minute, as upstream allows.
    clock.advance(62 * SECOND);
    let status = review().await;
    assert_ne!(status["authenticated"], true, "{status}");
    assert!(status["error"].as_str().unwrap().contains("expired"), "{status}");
}

#[tokio::test]
async fn events_expire_an_hour_after_their_last_write() {
    let (sandbox, clock) = by_hand().await;
    let all = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({"metadata": {"name": name}, "reason": "Told", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}})
    };
    post(&sandbox, all, &event("old")).await.expect(201);
    post(&sandbox, all, &event("repeated")).await.expect(201);
    post(&sandbox, "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "m"}}))
        .await
        .expect(201);
    let names = async || {
        let list = get(&sandbox, all).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|e| e["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let from = sandbox.api().store.revision();
    let mut watch = Watch::open(
        &sandbox,
        Way::Http,
        &format!("/apis/events.k8s.io/v1/events?watch=1&resourceVersion={from}"),
    )
    .await;
    clock.advance(40 * 60 * SECOND);
    let path = format!("{all}/repeated");
    let again = json!({"count": 2}).to_string();
    call(&sandbox, Method::PATCH, &path, MERGE, again).await.expect(200);
    clock.advance(19 * 60 * SECOND);
    assert_eq!(names().await, ["old", "repeated"]);
    clock.advance(2 * 60 * SECOND);
    eventually("the old event is gone", async || names().await == ["repeated"]).await;
    assert_eq!(watch.next().await.unwrap()["type"], "MODIFIED");
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["name"], "old");
    clock.advance(60 * 60 * SECOND);
    eventually("all events are gone", async || names().await.is_empty()).await;
    get(&sandbox, "/api/v1/namespaces/default/configmaps/m").await.expect(200);
}
