//! Every route that discovery names, with every method: an answer, never a dropped connection.

use std::collections::BTreeSet;

use http::Method;
use muster_sandbox::Sandbox;
use serde_json::Value;

use super::caller::*;
use super::panics;

/// All resource paths, as discovery tells them, with a name where they need one.
async fn routes(sandbox: &Sandbox) -> BTreeSet<(String, Vec<String>)> {
    let mut versions = vec!["/api/v1".to_owned()];
    let groups = get(sandbox, "/apis").await.expect(200);
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            versions.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    let mut out = BTreeSet::new();
    for version in versions {
        let list = get(sandbox, &version).await.expect(200);
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let place = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
            let verbs: Vec<String> = serde_json::from_value(resource["verbs"].clone()).unwrap();
            match name.split_once('/') {
                Some((plural, sub)) => {
                    out.insert((format!("{version}{place}/{plural}/no-such/{sub}"), verbs));
                }
                None => {
                    out.insert((format!("{version}{place}/{name}"), verbs.clone()));
                    out.insert((format!("{version}{place}/{name}/no-such"), verbs));
                }
            }
        }
    }
    out
}

#[tokio::test]
async fn every_route_answers_every_method() {
    panics::watch();
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let routes = routes(&sandbox).await;
    assert!(routes.len() > 60, "{}", routes.len());
    let methods = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "TRACE", "BREW"];
    for (path, verbs) in &routes {
        for method in methods {
            let media = if method == "PATCH" { MERGE } else { JSON };
            let method: Method = method.parse().unwrap();
            let answer = http(&sandbox, method.clone(), path, media, "{}").await;
            let said = format!("{method} {path}: {} {}", answer.code, answer.body);
            // Upstream refuses a binding without a target with a bare 500, in these words.
            let bare = path.ends_with("/binding")
                && answer.body["message"] == "target.name: Required value";
            assert!((200..500).contains(&answer.code) || bare, "{said}");
            if method == Method::HEAD {
                continue;
            }
            assert!(answer.code < 300 || is_status(&answer.body), "{said}");
            let understood = ["GET", "POST", "PUT", "PATCH"].contains(&method.as_str());
            assert!(understood || answer.code == 405, "{said}");
        }
        // What discovery promises is there.
        let named = path.ends_with("/no-such");
        if verbs.iter().any(|verb| verb == "get") && named {
            http(&sandbox, Method::GET, path, JSON, "").await.expect(404);
        }
        if verbs.iter().any(|verb| verb == "list") && !named {
            http(&sandbox, Method::GET, path, JSON, "").await.expect(200);
        }
        if verbs.iter().any(|verb| verb == "delete") && named {
            http(&sandbox, Method::DELETE, path, JSON, "").await.expect(404);
        }
    }
    panics::assert_none();
}

fn is_status(body: &Value) -> bool {
    body["kind"] == "Status" && body["code"].is_u64() && body["message"].is_string()
}
