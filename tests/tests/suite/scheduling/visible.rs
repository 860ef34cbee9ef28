//! Containers that choose devices by themselves, and how that is forbidden.

use anyhow::{Result, ensure};
use muster_scheduling::admission::Rules;
use muster_scheduling::live::KaiConfig;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::scheduling::waiting_pod;
use serde_json::{Value, json};

use super::live::{change, create_config, of_config};
use crate::suite::workload::GPU;

fn pod(name: &str, devices: u32) -> Value {
    let mut pod = waiting_pod(name, 0, "", GPU, devices);
    if devices == 0 {
        pod["spec"]["containers"][0]["resources"] = json!({});
    }
    pod["spec"]["containers"][0]["env"] =
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    pod
}

/// The variable's value in a pod that was created.
fn value(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["env"][0]["value"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_forbids_to_choose_devices_and_allows_it_again() -> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .coordinators(1)
        .run(async |world| {
            let made = world.create_object(pod("free", 1)).await?;
            ensure!(value(&made) == "all", "{made}");
            create_config(world, json!({"admission": {"blockNvidiaVisibleDevices": true}})).await?;
            let mut number = 0;
            let refused = world
                .until("it is refused", async || {
                    number += 1;
                    Ok(match world.create_object(pod(&format!("odd-{number}"), 1)).await {
                        Ok(_) => Seen::NotYet("it is admitted".to_owned()),
                        Err(error) => Seen::Yes(format!("{error:#}")),
                    })
                })
                .await?;
            for word in ["spec.containers[0].env", "NVIDIA_VISIBLE_DEVICES", "void or none"] {
                ensure!(refused.contains(word), "{refused}");
            }
            let made = world.create_object(pod("plain", 0)).await?;
            ensure!(value(&made) == "void", "{made}");
            let off = json!({"admission": {"blockNvidiaVisibleDevices": false}});
            change::<KaiConfig>(world, "kai-config", off).await?;
            world
                .until("it is admitted again", async || {
                    number += 1;
                    Ok(match world.create_object(pod(&format!("even-{number}"), 1)).await {
                        Ok(made) => Seen::Yes(made),
                        Err(error) => Seen::NotYet(format!("{error:#}")),
                    })
                })
                .await
                .map(drop)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_switches_admission_of_pods_off_and_on() -> Result<()> {
    if World::is_real() {
        return Ok(());
    }
    World::new()
        .coordinators(1)
        .run(async |world| {
            let odd = |number: usize| {
                let mut pod = waiting_pod("odd", number, "", GPU, 1);
                pod["metadata"]["annotations"] = json!({"gpu-fraction": "2"});
                pod["spec"]["containers"][0]["resources"] = json!({});
                pod
            };
            let refused = world.create_object(odd(0)).await;
            ensure!(refused.is_err(), "two devices are no part of one");
            create_config(world, json!({"admission": {"service": {"enabled": false}}})).await?;
            let deployed = of_config(world, "Deployed", |one| one["status"] == "True").await?;
            let message = deployed["message"].as_str().unwrap_or_default();
            ensure!(message.contains("spec.admission.service.enabled"), "{deployed}");
            let mut number = 0;
            world
                .until("it is admitted", async || {
                    number += 1;
                    Ok(match world.create_object(odd(number)).await {
                        Ok(_) => Seen::Yes(()),
                        Err(error) => Seen::NotYet(format!("{error:#}")),
                    })
                })
                .await?;
            let on = json!({"admission": {"service": {"enabled": true}}});
            change::<KaiConfig>(world, "kai-config", on).await?;
            world
                .until("it is refused again", async || {
                    number += 1;
                    Ok(match world.create_object(odd(number)).await {
                        Ok(_) => Seen::NotYet("it is admitted".to_owned()),
                        Err(_) => Seen::Yes(()),
                    })
                })
                .await
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_forbids_to_choose_devices() -> Result<()> {
    let rules = Rules { block_visible_devices: true, ..Rules::default() };
    let choices = Choices { admission: rules, ..Choices::default() };
    World::new()
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            let refused = world.create_object(pod("odd", 1)).await;
            ensure!(refused.is_err(), "it is admitted");
            let made = world.create_object(pod("plain", 0)).await?;
            ensure!(value(&made) == "void", "{made}");
            Ok(())
        })
        .await
}
