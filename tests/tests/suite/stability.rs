//! Ranks that stay: survivors of a change keep theirs, also when another coordinator makes the next table.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use muster_coordinator::ranktables::{DeviceSource, Settings};
use muster_tests::World;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::{HOLD, Seen};
use serde_json::{Value, json};

use super::workload::{NPU, pod, template};

const TABLE: &str = r#"{"status":"completed","ranks":{ {{- range $i, $s := .Servers }}{{ range $j, $d := $s.Devices -}}
{{ if or $i $j }},{{ end }}{{ printf "%s/%s" $s.ServerId $d.DeviceId | quote }}:{{ $d.RankId }}{{ end }}{{ end -}} }}"#;

/// A pod with two devices of this server.
fn worker(name: &str, server: &str, ranktable: &str) -> Value {
    let devices = ["0", "1"].map(|id| json!({"device_id": id, "device_ip": ""}));
    let mut worker = template(HOLD, NPU, 1, json!({}));
    worker["metadata"]["labels"]["muster.dev/rank-group"] = json!("keep");
    worker["metadata"]["annotations"] = json!({
        "muster.dev/rank-group-size": "3",
        "muster.dev/ranktable-template": ranktable,
        "ascend.com/ranktable": json!({"pod_name": name, "server_id": server, "devices": devices}).to_string(),
    });
    pod(name, worker)
}

/// The ranks, once the table is about this server.
async fn ranks(world: &World, with: &str) -> Result<BTreeMap<String, u32>> {
    let maps = world.api::<ConfigMap>();
    world
        .until(&format!("a table with {with}"), async || {
            let map = maps.get_opt("keep-ranktable").await?;
            let text = map.and_then(|map| map.data?.remove("ranktable.json")).unwrap_or_default();
            match text.contains(with) {
                false => Ok(Seen::NotYet(text)),
                true => {
                    let table: Value = serde_json::from_str(&text)?;
                    Ok(Seen::Yes(serde_json::from_value(table["ranks"].clone())?))
                }
            }
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivors_keep_their_ranks_also_under_another_coordinator() -> Result<()> {
    let defaults = Choices::default();
    let ranktable = Settings { devices: DeviceSource::Annotation, ..defaults.ranktable };
    let plan =
        World::new().nodes(1).coordinators(1).choices(Choices { ranktable, ..Choices::default() });
    plan.run(async |world| {
        let name = format!("keep-{}", world.namespace());
        let source = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "kthena-system"},
            "data": {"ranktable-template": TABLE, "rank-stability": "keep"}});
        let templates: Api<ConfigMap> = Api::namespaced(world.client(), "kthena-system");
        templates.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&source)).await?;
        for (pod, server) in [("a", "s1"), ("b", "s2"), ("c", "s3")] {
            world
                .until("the pod, once the template is known", async || {
                    Ok(match world.create_object(worker(pod, server, &name)).await {
                        Ok(_) => Seen::Yes(()),
                        Err(error) => Seen::NotYet(format!("{error:#}")),
                    })
                })
                .await?;
        }
        let first = ranks(world, "s3/").await?;
        assert_eq!(first["s1/0"], 0);

        let leader = world.coordinators()?.leader().context("no leader")?.number;
        world.coordinators_mut()?.end(leader).await?;
        world.add_coordinator().await?;
        let pods = world.api::<Pod>();
        pods.delete("a", &DeleteParams::default().grace_period(0)).await?;
        world
            .until("a pod in its place", async || {
                Ok(match world.create_object(worker("d", "s9", &name)).await {
                    Ok(_) => Seen::Yes(()),
                    Err(error) => Seen::NotYet(format!("{error:#}")),
                })
            })
            .await?;
        let second = ranks(world, "s9/").await?;
        for device in ["s2/0", "s2/1", "s3/0", "s3/1"] {
            assert_eq!(second[device], first[device], "{device}");
        }
        assert_eq!((second["s9/0"], second["s9/1"]), (0, 1));
        templates.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    })
    .await
}
