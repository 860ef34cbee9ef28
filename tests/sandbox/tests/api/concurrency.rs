//! Many writers at once: nothing that the server said yes to is lost.

use std::sync::Arc;

use http::Method;
use muster_sandbox::Sandbox;
use serde_json::json;

use super::caller::*;
use super::panics;

const ALL: &str = "/api/v1/namespaces/default/configmaps";
const ONE: &str = "/api/v1/namespaces/default/configmaps/x";

async fn with_map() -> Arc<Sandbox> {
    let sandbox = bare().await;
    post(&sandbox, ALL, &json!({"metadata": {"name": "x"}, "data": {"n": "0"}})).await.expect(201);
    Arc::new(sandbox)
}

async fn increment(sandbox: &Sandbox, way: Way) -> u32 {
    let mut conflicts = 0;
    loop {
        let mut object = get(sandbox, ONE).await.expect(200);
        let n: u32 = object["data"]["n"].as_str().unwrap().parse().unwrap();
        object["data"]["n"] = json!((n + 1).to_string());
        // Let the others in between reading and writing.
        tokio::task::yield_now().await;
        let answer = match way {
            Way::Process => call(sandbox, Method::PUT, ONE, JSON, object.to_string()).await,
            Way::Http => http(sandbox, Method::PUT, ONE, JSON, object.to_string()).await,
        };
        match answer.code {
            200 => return conflicts,
            409 => conflicts += 1,
            _ => panic!("{}", answer.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_increments_that_retry_on_409_lose_none() {
    let sandbox = with_map().await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let sandbox = sandbox.clone();
            let way = if task % 2 == 0 { Way::Process } else { Way::Http };
            tokio::spawn(async move {
                let mut conflicts = 0;
                for _ in 0..25 {
                    conflicts += increment(&sandbox, way).await;
                }
                conflicts
            })
        })
        .collect();
    let mut conflicts = 0;
    for task in tasks {
        conflicts += task.await.unwrap();
    }
    assert_eq!(get(&sandbox, ONE).await.expect(200)["data"]["n"], "200");
    assert!(conflicts > 0, "without conflicts nothing was shown");
    panics::assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unconditional_patches_of_all_kinds_from_many_tasks_all_land() {
    let sandbox = with_map().await;
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let sandbox = sandbox.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    let key = format!("t{task}-{n}");
                    let merge = json!({"data": {&key: "v"}}).to_string();
                    let (media, body) = match n % 3 {
                        0 => (MERGE, merge),
                        1 => (STRATEGIC, merge),
                        _ => {
                            let path = format!("/data/{key}");
                            let patch = json!([{"op": "add", "path": path, "value": "v"}]);
                            (JSON_PATCH, patch.to_string())
                        }
                    };
                    call(&sandbox, Method::PATCH, ONE, media, body).await.expect(200);
                }
                let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "x"}, "data": {format!("applied-{task}"): "v"}});
                apply(&sandbox, ONE, &format!("m{task}"), &config).await.expect(200);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let object = get(&sandbox, ONE).await.expect(200);
    assert_eq!(object["data"].as_object().unwrap().len(), 1 + 16 * 21);
    panics::assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_creators_of_one_name_exactly_one_wins() {
    let sandbox = Arc::new(bare().await);
    for round in 0..20 {
        let name = format!("r{round}");
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (sandbox, body) = (sandbox.clone(), json!({"metadata": {"name": &name}}));
                tokio::spawn(async move { post(&sandbox, ALL, &body).await.code })
            })
            .collect();
        let mut codes = Vec::new();
        for task in tasks {
            codes.push(task.await.unwrap());
        }
        codes.sort_unstable();
        assert_eq!(codes, [201, 409, 409, 409, 409, 409, 409, 409]);
    }
}
