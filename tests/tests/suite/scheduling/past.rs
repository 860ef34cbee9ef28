//! Past use of queues, from a server that answers as Prometheus does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use muster_coordinator::placement::live::KaiConfig;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::scheduling::{node, waiting_pod};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::live::{change, create_config, create_shard, of_config, of_shard};
use crate::suite::workload::GPU;

/// Answers for as long as it is asked, and refuses when it is told to.
async fn serve(listener: TcpListener, broken: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        let broken = broken.clone();
        tokio::spawn(async move {
            let _ended = answer(stream, &broken).await;
        });
    }
}

async fn answer(mut stream: TcpStream, broken: &AtomicBool) -> Result<()> {
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
    let (status, body) = match broken.load(Ordering::Relaxed) {
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
