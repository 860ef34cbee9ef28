//! A plugin that is not Muster's own: objects of a kind that no other plugin builds are watched and repaired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::DeleteParams;
use muster_api::TrainJob;
use muster_pipeline::plugin::{ComponentBuilder, Context, Fault, Plugin, Watch, WatchExtension};
use muster_pipeline::{Info, Registry, name};
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use serde_json::{Value, json};

use super::{held, job, torch, workload};

/// Gives each job a Service, and says whether it has seen one.
struct Door(Arc<AtomicBool>);

impl Plugin for Door {
    fn name(&self) -> &'static str {
        "Door"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.builders.push(self.clone());
        at.watchers.push(self);
    }
}

impl ComponentBuilder for Door {
    fn build(&self, cx: &Context<'_>, _: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let door = name::of(job, "door");
        if cx.cluster.exists("v1", "Service", job.namespace(), &door) {
            self.0.store(true, Ordering::Relaxed);
            return Ok(Vec::new());
        }
        let spec = json!({"clusterIP": "None", "ports": [{"port": 80}]});
        let metadata = name::metadata(job, &door);
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        Ok(vec![service])
    }

    fn is_made_once(&self, _: &TrainJob, object: &Value) -> bool {
        object["kind"] == "Service"
    }
}

impl WatchExtension for Door {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned("v1", "Service")]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_plugin_of_ones_own_makes_is_known_to_exist_and_made_again_when_it_is_deleted()
-> Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    let plugins = Registry::standard().with(Door(Arc::clone(&seen)));
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .coordinators(1)
        .choices(Choices { plugins, ..Choices::default() })
        .run(async |world| {
            let services: Api<Service> = world.api();
            let door = async |other: Option<&str>| {
                world
                    .until("a Service for the job", async || {
                        let found = services.get_opt("one-door").await?;
                        let uid = found.and_then(|found| found.metadata.uid);
                        let new = uid.filter(|uid| Some(uid.as_str()) != other);
                        Ok(new.map_or(Seen::NotYet("none".to_owned()), Seen::Yes))
                    })
                    .await
            };
            world.create_object(torch("torch", held())).await?;
            world.train(job("one", "torch", 1)).await?;
            let first = door(None).await?;
            workload(world, "one").await?;
            services.delete("one-door", &DeleteParams::default()).await?;
            let second = door(Some(&first)).await?;
            ensure!(first != second, "another one of its name");
            world
                .until("a plugin that knows of its Service", async || {
                    let seen = seen.load(Ordering::Relaxed);
                    Ok(if seen { Seen::Yes(()) } else { Seen::NotYet("not yet".to_owned()) })
                })
                .await
        })
        .await
}
