//! Pages: whatever their size, together they are the list at the first page's revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::Method;
use muster_sandbox::Sandbox;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::caller::*;

const ALL: &str = "/api/v1/namespaces/default/configmaps";

async fn write_on(sandbox: Arc<Sandbox>, writer: u32, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    for n in (0_u32..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let name = format!("w{writer}-{}", n % 7);
        let object = json!({"metadata": {"name": name, "labels": {"odd": (n % 2).to_string()}}});
        let answer = if n % 3 == 2 {
            call(&sandbox, Method::DELETE, &format!("{ALL}/{name}"), JSON, "").await
        } else {
            post(&sandbox, ALL, &object).await
        };
        assert!(matches!(answer.code, 200 | 201 | 404 | 409), "{}", answer.body);
        done.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

async fn pages_are_the_list(objects: u8, limit: u16, labelled: bool) {
    let sandbox = Arc::new(bare().await);
    for n in 0..objects {
        let object =
            json!({"metadata": {"name": format!("o{n}"), "labels": {"odd": (n % 2).to_string()}}});
        post(&sandbox, ALL, &object).await.expect(201);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..3)
        .map(|w| tokio::spawn(write_on(sandbox.clone(), w, stop.clone(), done.clone())))
        .collect();
    let selector = if labelled { "labelSelector=odd%3D1" } else { "" };
    let mut items: Vec<Value> = Vec::new();
    let (mut token, mut revision) = (String::new(), 0);
    loop {
        // Writers get in between every two pages.
        let before = done.load(Ordering::Relaxed);
        eventually("a write between two pages", async || done.load(Ordering::Relaxed) > before)
            .await;
        let url = format!("{ALL}?limit={limit}&continue={token}&{selector}");
        let page = http(&sandbox, Method::GET, &url, JSON, "").await.expect(200);
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= usize::from(limit));
        items.extend(found.iter().cloned());
        if revision == 0 {
            revision = self::revision(&page);
        }
        assert_eq!(self::revision(&page), revision, "every page is of the first one's revision");
        token = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
        if token.is_empty() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let url = format!("{ALL}?resourceVersion={revision}&resourceVersionMatch=Exact&{selector}");
    let whole = get(&sandbox, &url).await.expect(200);
    assert_eq!(&items, whole["items"].as_array().unwrap());
}

#[test]
fn pages_of_any_size_are_the_whole_list_while_writers_write() {
    law(12, (0..40_u8, 1..12_u16, any::<bool>()), |(objects, limit, labelled)| {
        pages_are_the_list(objects, limit, labelled)
    });
}
