//! Past use of queues, from a server that answers as Prometheus does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use muster_sandbox::hardware::Profile;
use muster_scheduling::live::KaiConfig;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::agents::NAMESPACE;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::live::{change, create_config, create_shard, of_config, of_shard};
use crate::suite::workload::GPU;

/// Answers for as long as it is asked, and refuses when it is told to.
async fn serve(listener: TcpListener, broken: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        let broken = broken.clone();
        tokio::spawn(async move {
            let _ended = answer(stream, "", &broken).await;
        });
    }
}

/// Answers over TLS, and only to who has a token.
async fn serve_securely(listener: TcpListener, tls: Arc<ServerConfig>, token: &'static str) {
    while let Ok((stream, _)) = listener.accept().await {
        let accepted = TlsAcceptor::from(tls.clone()).accept(stream);
        tokio::spawn(async move {
            if let Ok(stream) = accepted.await {
                let _ended = answer(stream, token, &AtomicBool::new(false)).await;
            }
        });
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    token: &str,
    broken: &AtomicBool,
) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 * 1024 {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let value = |labels: Value, amount: &str| json!({"metric": labels, "value": [1, amount]});
    let result = if head.contains("kube_node_status_capacity") {
        json!([value(json!({}), "800")])
    } else if head.contains("kai_queue_allocated_gpus") {
        json!([
            value(json!({"queue_name": "heavy"}), "800"),
            value(json!({"queue_name": "light"}), "0")
        ])
    } else {
        json!([])
    };
    let is_known = token.is_empty()
        || head.to_lowercase().contains(&format!("authorization: bearer {token}\r\n"));
    let (status, body) = match broken.load(Ordering::Relaxed) {
        _ if !is_known => ("401 Unauthorized", json!({"status": "error", "error": "who are you"})),
        true => ("503 Service Unavailable", json!({"status": "error", "error": "it rests"})),
        false => (
            "200 OK",
            json!({"status": "success", "data": {"resultType": "vector", "result": result}}),
        ),
    };
    ensure!(head.starts_with("GET /api/v1/query?query=sum_over_time"), "{head}");
    let body = body.to_string();
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await?;
    Ok(())
}

/// How many pods of a set have a node.
async fn placed(world: &World, set: &str) -> Result<usize> {
    Ok(world.pods_of(set).await?.iter().filter(|pod| node(pod).is_some()).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_queues_of_equal_weight_the_one_that_used_less_gets_the_share() -> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let broken = Arc::new(AtomicBool::new(false));
    let server = tokio::spawn(serve(listener, broken.clone()));
    let done = World::new()
        .nodes_of(Profile::NvidiaH1008, 1)
        .coordinators(1)
        .run(async |world| {
            for queue in ["heavy", "light"] {
                world.queue(queue, "", 0.0, -1.0).await?;
            }
            // All pods are there before the first is placed.
            create_config(world, json!({"scheduler": {"service": {"enabled": false}}})).await?;
            of_config(world, "Available", |_| true).await?;
            let usage = json!({"clientType": "prometheus", "connectionString": url,
                "usageParams": {"windowSize": "1h", "fetchInterval": "1s", "stalenessPeriod": "1s"}});
            create_shard(world, json!({ "usageDBConfig": usage, "kValue": 1.0 })).await?;
            of_shard(world, "DependenciesFulfilled", |one| one["status"] == "True").await?;
            for queue in ["heavy", "light"] {
                for number in 0..8 {
                    let name = format!("{queue}-{number}");
                    world.pod_group(&name, queue, 1, json!({})).await?;
                    let mut pod = waiting_pod(queue, number, &name, GPU, 1);
                    pod["metadata"]["labels"]["test.muster.dev/set"] = queue.into();
                    world.create_object(pod).await?;
                }
            }
            let on = json!({"scheduler": {"service": {"enabled": true}}});
            change::<KaiConfig>(world, "kai-config", on).await?;
            world
                .until("the node is full", async || {
                    let both = (placed(world, "heavy").await?, placed(world, "light").await?);
                    Ok(match both.0 + both.1 {
                        8 => Seen::Yes(both),
                        _ => Seen::NotYet(format!("{both:?}")),
                    })
                })
                .await
                .and_then(|both| {
                    ensure!(both == (0, 8), "heavy and light have {both:?}");
                    Ok(())
                })?;
            // Without answers past use stops to count, and the shard says so.
            broken.store(true, Ordering::Relaxed);
            let missing = of_shard(world, "DependenciesFulfilled", |one| one["status"] == "False").await?;
            let message = missing["message"].as_str().unwrap_or_default();
            ensure!(missing["reason"] == "prometheus_connection_failed", "{missing}");
            ensure!(message.contains("503") && message.contains("it rests"), "{missing}");
            broken.store(false, Ordering::Relaxed);
            of_shard(world, "DependenciesFulfilled", |one| one["status"] == "True").await.map(drop)
        })
        .await;
    server.abort();
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prometheus_behind_tls_is_asked_with_the_token_of_a_secret_that_may_change() -> Result<()>
{
    if World::is_real() {
        return Ok(());
    }
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    let authority = own.cert.pem();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let server = tokio::spawn(serve_securely(listener, Arc::new(tls), "open-sesame"));
    let done = World::new()
        .coordinators(1)
        .run(async |world| {
            world.queue("team", "", 0.0, -1.0).await?;
            let connection = json!({"url": url, "authSecretName": "prometheus"});
            create_config(world, json!({"global": {"connection": connection}})).await?;
            let params =
                json!({"fetchInterval": "1s", "stalenessPeriod": "1s", "waitTimeout": "1s"});
            let usage = json!({"clientType": "prometheus", "usageParams": params});
            create_shard(world, json!({ "usageDBConfig": usage })).await?;
            let missing = async |word: &str| {
                let says =
                    |one: &Value| one["message"].as_str().is_some_and(|it| it.contains(word));
                let one = |one: &Value| one["status"] == "False" && says(one);
                of_shard(world, "DependenciesFulfilled", one).await
            };
            missing("Secret muster-system/prometheus (authSecretName) does not exist").await?;
            let secrets: Api<Secret> = Api::namespaced(world.client(), NAMESPACE);
            let secret = |data: Value| -> Result<Secret> {
                let name = json!({"name": "prometheus", "namespace": NAMESPACE});
                Ok(serde_json::from_value(json!({"metadata": name, "stringData": data}))?)
            };
            secrets
                .create(&PostParams::default(), &secret(json!({"token": "open-sesame"}))?)
                .await?;
            missing("certificate").await?;
            let put = async |data: Value| {
                let change = Patch::Merge(json!({ "stringData": data }));
                secrets.patch("prometheus", &PatchParams::default(), &change).await
            };
            put(json!({"token": "wrong", "ca.crt": authority})).await?;
            let refused = missing("401").await?;
            ensure!(!refused.to_string().contains("wrong"), "a token is told: {refused}");
            put(json!({"token": "open-sesame"})).await?;
            of_shard(world, "DependenciesFulfilled", |one| one["status"] == "True").await.map(drop)
        })
        .await;
    server.abort();
    done
}
