//! What the same writes cost at least: a plain loop sends them, one after the other, to a server of its own that nobody
//! watches; or to the cluster that they were sent to first, into another namespace.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use muster_sandbox::Sandbox;
use serde_json::{Value, json};

use super::recorder::Write;

/// What the loop has shown.
pub struct Replayed {
    /// How long it took.
    pub took: Duration,
    /// What the server refused.
    pub refused: Vec<String>,
}

/// Sends all of them.
pub async fn replay(writes: &[Write]) -> anyhow::Result<Replayed> {
    let mut builder = Sandbox::builder().controllers(None);
    for crd in definitions()? {
        builder = builder.crd(crd);
    }
    let sandbox = builder.start().await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"}});
    sandbox.create("/api/v1/namespaces/default/serviceaccounts", &account).await?;
    let replayed = send(&sandbox.http_client()?, writes).await;
    sandbox.stop().await;
    replayed
}

/// The same writes for another namespace, without those that are not about the first one. The name of a world's namespace
/// stands for nothing else.
pub fn moved(writes: &[Write], from: &str, to: &str) -> Vec<Write> {
    let about = |write: &&Write| write.target.contains(&format!("/namespaces/{from}/"));
    let moved = |write: &Write| Write {
        target: write.target.replace(from, to),
        body: String::from_utf8_lossy(&write.body).replace(from, to).into(),
        ..write.clone()
    };
    writes.iter().filter(about).map(moved).collect()
}

/// Sends all of them to this server.
pub async fn send(client: &Client, writes: &[Write]) -> anyhow::Result<Replayed> {
    let requests: Vec<Request<Body>> = writes.iter().map(request).collect::<Result<_, _>>()?;
    let mut refused = Vec::new();
    let begun = Instant::now();
    for (write, request) in writes.iter().zip(requests) {
        let answer = client.send(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect_bytes().await?;
        if !status.is_success() {
            let body: String = String::from_utf8_lossy(&body).chars().take(400).collect();
            refused.push(format!("{} {}: {body}", write.method, write.target));
        }
    }
    Ok(Replayed { took: begun.elapsed(), refused })
}

/// The kinds that writes are about.
fn definitions() -> anyhow::Result<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![root.join("tests/sandbox/assets/jobset-crd.yaml")];
    for file in std::fs::read_dir(root.join("deploy/crds"))? {
        files.push(file?.path());
    }
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)?;
        let documents = serde_saphyr::from_multiple::<Value>(&text)?;
        let is = |document: &Value| document["kind"] == "CustomResourceDefinition";
        all.extend(documents.into_iter().filter(is));
    }
    Ok(all)
}

/// The request anew, without what only holds where it was sent first: versions, uids and owners.
fn request(write: &Write) -> anyhow::Result<Request<Body>> {
    let body = match write.method {
        Method::DELETE => b"{}".to_vec(),
        _ => anywhere(&write.body)?,
    };
    let mut request = Request::builder().method(write.method.clone()).uri(&write.target);
    if let Some(kind) = &write.content_type {
        request = request.header(CONTENT_TYPE, kind);
    }
    Ok(request.body(Body::from(body))?)
}

fn anywhere(body: &[u8]) -> anyhow::Result<Vec<u8>> {
    const OWN: [&str; 3] = ["resourceVersion", "uid", "ownerReferences"];
    let mut value: Value = serde_json::from_slice(body).context("a body that is no JSON")?;
    match &mut value {
        Value::Array(changes) => changes.retain(|change| {
            let path = change["path"].as_str().unwrap_or_default();
            let place = path.strip_prefix("/metadata/").unwrap_or_default();
            !OWN.iter().any(|own| place.starts_with(own))
        }),
        object => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                OWN.iter().for_each(|own| drop(metadata.remove(*own)));
            }
        }
    }
    Ok(serde_json::to_vec(&value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_move_to_another_namespace_and_others_stay_away() {
        let write = |target: &str| Write {
            method: Method::POST,
            target: target.to_owned(),
            content_type: None,
            body: r#"{"metadata":{"namespace":"wa-world"}}"#.into(),
            status: None,
        };
        let moved = moved(
            &[write("/api/v1/namespaces/wa-world/pods"), write("/api/v1/nodes")],
            "wa-world",
            "b",
        );
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].target, "/api/v1/namespaces/b/pods");
        assert_eq!(moved[0].body, r#"{"metadata":{"namespace":"b"}}"#);
    }

    #[test]
    fn what_holds_only_where_it_was_sent_first_is_left_out() {
        let seen = |body: Value| -> Value {
            let bytes = anywhere(&serde_json::to_vec(&body).unwrap()).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        };
        let map = json!({"metadata": {"name": "a", "resourceVersion": "7", "ownerReferences": []}});
        assert_eq!(seen(map), json!({"metadata": {"name": "a"}}));
        let patch = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/status", "value": {}}]);
        assert_eq!(seen(patch), json!([{"op": "add", "path": "/status", "value": {}}]));
    }
}
