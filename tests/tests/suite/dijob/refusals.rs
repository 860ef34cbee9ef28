//! What makes no sense is refused as the specification says, and nothing is half made.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use muster_dijob::server::Trust;
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::dijob::{Caller, selector};
use serde_json::{Value, json};

use super::{job, running};

const REPLICAS: &str = "/v1alpha1/replicas";
const FAILED: &str = "/v1alpha1/replicas/failed";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_and_nothing_is_half_made() -> Result<()> {
    // Other tests of a lasting cluster have made the one with the usual name.
    let mut choices = Choices::default();
    choices.dijob.make.aggregator_name = "not-made".to_owned();
    // What the caller may is another test's.
    choices.di_trust = Trust::Anyone;
    World::new()
        .nodes(1)
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            running(world, "good", "Running").await?;
            let mut serial = job("serial", "Running");
            serial["spec"].as_object_mut().map(|spec| spec.remove("learner"));
            world.create_object(serial).await?;
            world.dijob_is("serial", "Running").await?;
            let space = world.namespace().to_owned();
            let asked = |namespace: &str, coordinator: &str, collectors: Value, learners: Value| {
                json!({"namespace": namespace, "coordinator": coordinator,
                    "collectors": collectors, "learners": learners})
                .to_string()
            };
            let one = || json!({"replicas": 1});
            let good = "good-coordinator";
            let large = format!("{{\"namespace\":\"{}\"}}", "x".repeat(1024 * 1024));
            let cases = [
                (
                    "POST",
                    REPLICAS,
                    asked(&space, "ghost-coordinator", one(), one()),
                    404,
                    format!("pod: {space}/ghost-coordinator not exists in cache"),
                ),
                (
                    "POST",
                    REPLICAS,
                    asked("elsewhere", good, one(), one()),
                    404,
                    format!("pod: elsewhere/{good} not exists in cache"),
                ),
                (
                    "POST",
                    REPLICAS,
                    asked(&space, good, json!({"replicas": 100_000}), one()),
                    400,
                    "collectors.replicas is 100000: at most 1000 in one request".to_owned(),
                ),
                (
                    "POST",
                    REPLICAS,
                    asked(&space, good, one(), json!({"replicas": 1, "gpus": "1.5"})),
                    400,
                    "gpus must be a whole number: 1500m".to_owned(),
                ),
                (
                    "POST",
                    REPLICAS,
                    asked(&space, good, one(), json!({"replicas": 1, "gpus": 4})),
                    404,
                    "AGConfig: di-system/not-made not exists in cache".to_owned(),
                ),
                (
                    "POST",
                    REPLICAS,
                    asked(&space, "serial-coordinator", one(), one()),
                    400,
                    format!("DIJob {space}/serial has no learner template"),
                ),
                (
                    "POST",
                    REPLICAS,
                    "{\"namespace\":".to_owned(),
                    400,
                    "failed to decode request body: ".to_owned(),
                ),
                (
                    "POST",
                    REPLICAS,
                    String::new(),
                    400,
                    "failed to decode request body: EOF".to_owned(),
                ),
                (
                    "POST",
                    REPLICAS,
                    large,
                    400,
                    "failed to decode request body: it is larger than 1 MiB".to_owned(),
                ),
                (
                    "DELETE",
                    REPLICAS,
                    asked(&space, "ghost", one(), one()),
                    404,
                    format!("pod: {space}/ghost not exists in cache"),
                ),
                (
                    "POST",
                    FAILED,
                    json!({"namespace": space, "coordinator": good, "learners": [good]})
                        .to_string(),
                    400,
                    format!("replica {good} is a coordinator and cannot be recreated"),
                ),
                ("PATCH", REPLICAS, String::new(), 501, "PATCH not implemented".to_owned()),
                ("GET", FAILED, String::new(), 501, "GET not implemented".to_owned()),
            ];
            for (method, path, body, status, message) in cases {
                let mut caller = world.di_caller().await?;
                let (found, said) = caller.ask(method, path, body).await?;
                let text = said["message"].as_str().unwrap_or_default();
                ensure!(
                    found == status && text.starts_with(&message),
                    "{method} {path}: {found} {said}"
                );
                assert_eq!((&said["success"], &said["code"]), (&json!(false), &json!(1)));
            }
            let mut caller = Caller::new(world.coordinators()?.di_server()).await?;
            let none = asked(&space, good, json!({"replicas": -3}), json!({"replicas": 0}));
            let (status, said) = caller.ask("POST", REPLICAS, none).await?;
            ensure!(status == 200 && said["data"]["collectors"] == json!([]), "{said}");
            let (status, said) = caller.ask("GET", "/v1alpha1/replicas?Foo=1", "").await?;
            assert_eq!((status, &said["data"]), (400, &Value::Null));
            assert_eq!(caller.ask("GET", "/healthz", "").await?.0, 200);
            assert_eq!(caller.ask("GET", "/readyz", "").await?.0, 200);
            assert_eq!(caller.ask("GET", "/nothing", "").await?.0, 404);
            for name in ["good", "serial"] {
                let pods = world.pods(&selector(name)).await?;
                assert_eq!(pods.len(), 1, "only the coordinator of {name} is there");
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_cannot_work_are_refused_when_they_are_written() -> Result<()> {
    World::new()
        .coordinators(1)
        .run(async |world| {
            let refused = async |object: Value| match world.create_object(object).await {
                Ok(made) => anyhow::bail!("{made} was taken"),
                Err(error) => Ok(format!("{error:#}")),
            };
            let why = refused(job("wrong", "hello")).await?;
            let denied = "admission webhook \"vdijob.kb.io\" denied the request: ";
            let text = "Invalid CleanPodPolicy hello, expected in [None, Running, All]";
            ensure!(why.contains(&format!("{denied}{text}")), "{why}");
            let why = refused(job(&"long".repeat(12), "All")).await?;
            ensure!(
                why.contains("metadata.name must be a DNS label of at most 45 characters"),
                "{why}"
            );
            world.create_object(job("right", "")).await?;
            let change = Patch::Merge(json!({"spec": {"cleanPodPolicy": "running"}}));
            let changed = world.dijobs().patch("right", &PatchParams::default(), &change).await;
            ensure!(changed.is_err(), "a change is looked at too");
            Ok(())
        })
        .await
}
