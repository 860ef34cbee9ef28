//! Whose requests the DI server takes.

mod network;

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use http::header::HeaderName;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use muster_coordinator::workloads::dijob::server::handed::{Content, HEADER, PURPOSE};
use muster_dijob::names::AUDIENCE;
use muster_dijob::server::{FAILED, REPLICAS};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::dijob::{Caller, selector};
use serde_json::{Value, json};

use super::running;

/// The request of the attack that this is about: a thousand pods.
fn thousand(world: &World, job: &str) -> String {
    json!({"namespace": world.namespace(), "coordinator": format!("{job}-coordinator"),
        "collectors": {"replicas": 1000}})
    .to_string()
}

fn one(world: &World, job: &str) -> String {
    json!({"namespace": world.namespace(), "coordinator": format!("{job}-coordinator"),
        "collectors": {"replicas": 1}})
    .to_string()
}

/// Where the coordinators' servers listen: that of the leader first.
fn servers(world: &World) -> Result<(SocketAddr, Vec<SocketAddr>)> {
    let all = world.coordinators()?;
    let leader = all.leader().context("nobody leads")?.coordinator().addresses().di_server;
    let each = all.iter().map(|one| one.coordinator().addresses().di_server);
    Ok((leader, each.filter(|one| *one != leader).collect()))
}

async fn address(world: &World, pod: &str) -> Result<IpAddr> {
    let pods: Api<Pod> = world.api();
    let address = pods.get(pod).await?.status.and_then(|status| status.pod_ip);
    Ok(address.with_context(|| format!("{pod} has no address"))?.parse()?)
}

/// Connections to the leader's server.
fn connections(world: &World) -> Result<u64> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &leader.coordinator().status().registry)?;
    let line = text.lines().find_map(|line| line.strip_prefix("muster_diserver_connections "));
    Ok(line.context("no such metric")?.parse()?)
}

fn message(said: &Value) -> &str {
    said["message"].as_str().unwrap_or_default()
}

/// What coordinators alone know.
fn secret(world: &World) -> Result<[u8; 32]> {
    let leader = world.coordinators()?.leader().context("nobody leads")?;
    leader.coordinator().certificates().shared_secret(PURPOSE).context("there is no authority yet")
}

/// What a coordinator with this secret would say of the caller of a request for replicas.
fn prove(body: &str, secret: &[u8; 32], caller: IpAddr, nonce: u128) -> String {
    let (token, body) = ("", body.as_bytes());
    let content = Content { method: "POST", path: REPLICAS, query: "", token, body };
    content.prove(secret, caller, nonce, Timestamp::now())
}

/// Asks the leader for replicas, as a coordinator does that hands the request on.
async fn handed(world: &World, body: &str, proof: &str) -> Result<(u16, Value)> {
    let (header, leader) = (HeaderName::from_static(HEADER), servers(world)?.0);
    let mut caller = Caller::new(leader).await?.with_header(header, proof.to_owned());
    caller.ask("POST", REPLICAS, body.to_owned()).await
}

/// There is nothing but the coordinator of the job.
async fn is_alone(world: &World, job: &str) -> Result<()> {
    let pods = super::names(&world.pods(&selector(job)).await?);
    ensure!(pods == [format!("{job}-coordinator")].into(), "{pods:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_no_pod_of_the_job_and_has_no_token_makes_lists_and_deletes_nothing()
-> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(2)
        .run(async |world| {
            running(world, "mine", "Running").await?;
            let space = world.namespace().to_owned();
            let of_job = format!("{REPLICAS}?namespace={space}&coordinator=mine-coordinator");
            let report = json!({"namespace": space, "coordinator": "mine-coordinator",
                "collectors": ["mine-coordinator"]})
            .to_string();
            let ghost =
                json!({"namespace": space, "coordinator": "ghost", "collectors": {"replicas": 1}});
            let asked = [
                ("POST", REPLICAS, thousand(world, "mine")),
                ("DELETE", REPLICAS, one(world, "mine")),
                ("POST", FAILED, report),
                ("POST", REPLICAS, ghost.to_string()),
                ("GET", &of_job, "{}".to_owned()),
                ("GET", REPLICAS, "{}".to_owned()),
            ];
            let (leader, standbys) = servers(world)?;
            ensure!(standbys.len() == 1, "{standbys:?}");
            let forwarded = HeaderName::from_static("x-forwarded-for");
            let pod = address(world, "mine-coordinator").await?;
            for server in standbys.into_iter().chain([leader]) {
                let mut caller =
                    Caller::new(server).await?.with_header(forwarded.clone(), pod.to_string());
                for (method, target, body) in asked.clone() {
                    let (status, said) = caller.ask(method, target, body).await?;
                    // The standby has told the leader who called: not the standby itself.
                    let begin = "127.0.0.1 is not the address of a pod of this job";
                    ensure!(
                        status == 401 && message(&said).starts_with(begin),
                        "{method} {target}: {said}"
                    );
                    assert_eq!((&said["success"], &said["code"]), (&json!(false), &json!(1)));
                }
                assert_eq!(
                    caller.ask("GET", "/healthz", "").await?.0,
                    200,
                    "probes are everybody's"
                );
            }
            is_alone(world, "mine").await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_coordinator_is_believed_about_the_address_of_its_caller() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            running(world, "mine", "Running").await?;
            running(world, "other", "Running").await?;
            let pods = [
                address(world, "mine-coordinator").await?,
                address(world, "other-coordinator").await?,
            ];
            let (key, body) = (secret(world)?, one(world, "mine"));
            let prove = |key: &[u8; 32], caller, nonce| prove(&body, key, caller, nonce);
            let ask = async |proof: &str| handed(world, &body, proof).await;
            let good = prove(&key, pods[0], 1);
            for forged in [
                "1",
                &pods[0].to_string(),
                &prove(&[0; 32], pods[0], 2),
                &good.replace("v1 ", "v1 1"),
            ] {
                let (status, said) = ask(forged).await?;
                ensure!(
                    status == 503 && message(&said).contains("127.0.0.1 is not believed"),
                    "{forged}: {said}"
                );
            }
            is_alone(world, "mine").await?;
            for (caller, nonce) in [(pods[1], 3), ("127.0.0.1".parse()?, 4)] {
                let (status, said) = ask(&prove(&key, caller, nonce)).await?;
                ensure!(status == 401 && message(&said).starts_with(&caller.to_string()), "{said}");
            }
            is_alone(world, "mine").await?;
            let (status, said) = ask(&good).await?;
            ensure!(status == 200, "{said}");
            let (status, said) = ask(&good).await?;
            ensure!(status == 503 && message(&said).contains("was used before"), "{said}");
            assert_eq!(world.pods(&selector("mine")).await?.len(), 2);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_known_by_its_address_before_the_watch_has_shown_it() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            running(world, "first", "Running").await?;
            wire.freeze("/pods");
            world.create_object(super::job("early", "Running")).await?;
            let caller = world
                .until("the address of its coordinator", async || {
                    let found = address(world, "early-coordinator").await;
                    Ok(found.map_or_else(|error| Seen::NotYet(error.to_string()), Seen::Yes))
                })
                .await?;
            let body = one(world, "early");
            let (status, said) =
                handed(world, &body, &prove(&body, &secret(world)?, caller, 1)).await?;
            ensure!(status == 200, "{said}");
            wire.thaw();
            assert_eq!(world.pods(&selector("early")).await?.len(), 2);
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_for_what_its_user_may() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(2)
        .run(async |world| {
            running(world, "mine", "Running").await?;
            let space = world.namespace().to_owned();
            world.may_ask("reader", &["get"]).await?;
            let reader = world.token_of("reader", AUDIENCE).await?;
            let elsewhere = world.token_of("reader", "muster-coordinator").await?;
            let (leader, standbys) = servers(world)?;
            for server in standbys.into_iter().chain([leader]) {
                for (token, status, why) in [
                    ("invented", 401, "the token is refused"),
                    (&elsewhere, 401, "muster-di-server"),
                    (&reader, 403, "may not create dijobs/replicas of diengine.opendilab.org in namespace"),
                ] {
                    let mut caller = Caller::new(server).await?.with_token(token);
                    let (found, said) = caller.ask("POST", REPLICAS, thousand(world, "mine")).await?;
                    ensure!(found == status && message(&said).contains(why), "{found} {said}");
                }
                let mut caller = Caller::new(server).await?.with_token(&reader);
                assert_eq!(caller.query(&space, "mine-coordinator").await?.0, 200);
                assert_eq!(caller.ask("GET", REPLICAS, "{}").await?.0, 403, "of one job alone");
            }
            is_alone(world, "mine").await?;
            // As the documentation has it: by hand.
            let mut caller = world.di_caller().await?;
            let body = json!({"namespace": space, "coordinator": "mine-coordinator",
                "collectors": {"replicas": 2, "cpus": "500m"}});
            let (status, made) = caller.ask("POST", REPLICAS, body.to_string()).await?;
            ensure!(status == 200, "{made}");
            assert_eq!(made["data"]["collectors"].as_array().map(Vec::len), Some(2));
            let (status, said) = caller.query("elsewhere", "mine-coordinator").await?;
            ensure!(status == 403, "{said}");
            for odd in [format!("{space}/pods?x="), format!("{space}%2Fpods%3Fx%3D")] {
                let body = json!({"namespace": odd, "coordinator": "mine-coordinator", "collectors": {"replicas": 1}});
                assert_eq!(caller.ask("POST", REPLICAS, body.to_string()).await?.0, 400, "{odd}");
            }
            let target = format!("{REPLICAS}?namespace={space}%2Fpods%3Fx%3D&coordinator=mine-coordinator");
            let (status, said) = caller.ask("GET", &target, "{}").await?;
            ensure!(status == 400 && message(&said).contains("namespace"), "{said}");
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_has_succeeded_gets_no_replicas() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            running(world, "done", "Running").await?;
            world.gate().open();
            world.dijob_is("done", "Succeeded").await?;
            let mut caller = world.di_caller().await?;
            let said = world
                .until("a refusal", async || {
                    // The server's watch shows the end a moment after the API server.
                    let (status, said) = caller.ask("POST", REPLICAS, one(world, "done")).await?;
                    Ok(if status == 400 { Seen::Yes(said) } else { Seen::NotYet(said.to_string()) })
                })
                .await?;
            let why = format!("DIJob {}/done is Succeeded", world.namespace());
            ensure!(message(&said).starts_with(&why), "{said}");
            let (status, said) = caller.ask("POST", REPLICAS, thousand(world, "done")).await?;
            ensure!(status == 400, "{said}");
            world
                .until("nothing but its coordinator", async || {
                    Ok(match is_alone(world, "done").await {
                        Ok(()) => Seen::Yes(()),
                        Err(error) => Seen::NotYet(error.to_string()),
                    })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_caller_has_left_begins_with_no_further_replica() -> Result<()> {
    World::new()
        .nodes(1)
        .coordinators(1)
        .run(async |world| {
            let (_, wire) = world.wired_coordinator().await?;
            running(world, "left", "Running").await?;
            let (space, token) = (world.namespace().to_owned(), world.di_token().await?);
            let mut held = wire.hold_create("/pods");
            let mut caller = Caller::new(servers(world)?.0).await?.with_token(&token);
            let asking = tokio::spawn({
                let body = thousand(world, "left");
                async move { caller.ask("POST", REPLICAS, body).await }
            });
            held.caught().await?;
            asking.abort();
            let _aborted = asking.await;
            world
                .until("the end of its connection", async || {
                    let open = connections(world)?;
                    Ok(if open == 0 { Seen::Yes(()) } else { Seen::NotYet(format!("{open} are open")) })
                })
                .await?;
            // Another request of the job waits until the first one has ended.
            let mut next = world.di_caller().await?;
            let gone = json!({"namespace": space, "coordinator": "left-coordinator", "collectors": {"replicas": 0}});
            let waiting = tokio::spawn(async move { next.ask("DELETE", REPLICAS, gone.to_string()).await });
            assert_eq!(held.release().await?, 201);
            let (status, said) = waiting.await??;
            ensure!(status == 200, "{said}");
            assert_eq!(world.pods(&selector("left")).await?.len(), 2, "the coordinator and what was begun");
            Ok(())
        })
        .await
}
