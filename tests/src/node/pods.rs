//! Pods of the node, and what their containers see.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::Stage;
use crate::world::{Seen, jobset};

/// The resources of the device plugin.
pub const NPU: &str = "huawei.com/Ascend910";
const GPU: &str = "nvidia.com/gpu";
const TEMPLATE: &str = "ascend-ranktable-template-mindie-role";
/// Where the table is in a container.
pub const TABLE: &str = "/etc/ascend/ranktable/ranktable.json";
/// Waits until it is told to end, at once.
const IDLE: &str = "trap exit TERM; while :; do sleep 3600 & wait; done";

/// A pod of a rank group.
pub struct Member<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub size: usize,
    pub devices: usize,
    /// `agent` or `configmap`.
    pub delivery: &'a str,
    /// Whether the record is also mounted as a plain ConfigMap volume, at /record.
    pub record: bool,
}

impl Stage<'_> {
    pub fn pods(&self) -> Api<Pod> {
        self.world.api()
    }

    fn plain(&self, name: &str, resource: &str, devices: usize) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "enableServiceLinks": false,
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": self.args.busybox_image, "command": ["sh", "-c", IDLE],
                    "resources": {"limits": {resource: devices.to_string()}}}]}})
    }

    /// Creates a pod of a rank group.
    pub async fn join(&self, member: Member<'_>) -> anyhow::Result<Pod> {
        let Member { name, group, size, devices, delivery, record } = member;
        let mut pod = self.plain(name, NPU, devices);
        pod["metadata"]["labels"] = json!({"muster.dev/rank-group": group});
        pod["metadata"]["annotations"] = json!({"muster.dev/rank-group-size": size.to_string(),
            "muster.dev/ranktable-template": TEMPLATE, "muster.dev/ranktable-delivery": delivery});
        if record {
            pod["spec"]["volumes"] = json!([{"name": "record", "configMap": {"name": format!("{group}-ranktable"), "optional": true}}]);
            pod["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "record", "mountPath": "/record"}]);
        }
        Ok(self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
    }

    /// Waits until a pod runs.
    pub async fn running(&self, name: &str) -> anyhow::Result<Pod> {
        self.world
            .until(&format!("pod {name} Running"), async || {
                let pod = self.pods().get(name).await?;
                Ok(match jobset::phase(&pod) == "Running" {
                    true => Seen::Yes(pod),
                    false => Seen::NotYet(serde_json::to_string(&pod.status)?),
                })
            })
            .await
    }

    /// Deletes a pod and waits until it is gone, so that its devices are free.
    pub async fn end(&self, name: &str) -> anyhow::Result<()> {
        self.pods().delete(name, &DeleteParams::default()).await?;
        self.world
            .until(&format!("the end of pod {name}"), async || {
                Ok(match self.pods().get_opt(name).await? {
                    None => Seen::Yes(()),
                    Some(_) => Seen::NotYet("it is there".to_owned()),
                })
            })
            .await
    }

    /// Waits until a pod gets all NPUs. A kubelet that has just started counts devices of pods that are gone, and refuses
    /// pods for it; a Job would make another.
    pub async fn until_all_devices_are_free(&self) -> anyhow::Result<()> {
        let name = "all";
        self.world
            .until("a pod with all NPUs", async || {
                let pod = serde_json::from_value(self.plain(name, NPU, 8))?;
                self.pods().create(&PostParams::default(), &pod).await?;
                let settled = |pod: &Pod| ["Running", "Failed"].contains(&jobset::phase(pod));
                let pod = self
                    .world
                    .until("a pod that runs or is refused", async || {
                        let pod = self.pods().get(name).await?;
                        Ok(match settled(&pod) {
                            true => Seen::Yes(pod),
                            false => Seen::NotYet(jobset::phase(&pod).to_owned()),
                        })
                    })
                    .await?;
                self.end(name).await?;
                Ok(match jobset::phase(&pod) {
                    "Running" => Seen::Yes(()),
                    _ => Seen::NotYet(serde_json::to_string(&pod.status)?),
                })
            })
            .await
    }

    /// Ends all pods, also those that a check which failed has left.
    pub async fn clear(&self) -> anyhow::Result<()> {
        self.pods().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.world
            .until("the end of all pods", async || {
                let left = self.pods().list(&ListParams::default()).await?;
                Ok(match left.items.len() {
                    0 => Seen::Yes(()),
                    count => Seen::NotYet(format!("{count} are there")),
                })
            })
            .await
    }

    /// What the plugin put into the environment of the container, as the kubelet started it.
    async fn given(&self, pod: &str, variable: &str) -> anyhow::Result<BTreeSet<String>> {
        let tell = format!("echo ${variable}");
        let said =
            self.kubectl(&["exec", pod, "--container", "main", "--", "sh", "-c", &tell]).await?;
        Ok(said.trim().split(',').map(str::to_owned).collect())
    }

    /// Waits for the agent's annotation; this of each device.
    async fn annotated(&self, pod: &str, field: &str) -> anyhow::Result<BTreeSet<String>> {
        self.world
            .until(&format!("the annotation of {pod}"), async || {
                let found = self.pods().get(pod).await?;
                let Some(text) = found.annotations().get("ascend.com/ranktable") else {
                    return Ok(Seen::NotYet("none".to_owned()));
                };
                let told: Value = serde_json::from_str(text)?;
                let devices = told["devices"].as_array().context("no devices")?;
                let words = devices.iter().filter_map(|one| one[field].as_str());
                Ok(Seen::Yes(words.map(str::to_owned).collect()))
            })
            .await
    }

    /// The annotation of a pod and the environment of its container name the same GPUs.
    pub async fn annotates_gpus(&self) -> anyhow::Result<()> {
        let pod = self.plain("gpus", GPU, 3);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        self.running("gpus").await?;
        let (told, given) = (
            self.annotated("gpus", "uuid").await?,
            self.given("gpus", "NVIDIA_VISIBLE_DEVICES").await?,
        );
        ensure!(told == given && told.len() == 3, "annotation {told:?}, container {given:?}");
        self.end("gpus").await
    }

    /// Two pods, delivery by the agent.
    pub async fn delivers(&self) -> anyhow::Result<()> {
        self.delivers_to("train", 2, 4).await
    }

    /// So many pods with so many NPUs each: annotation, environment, record and file say the same.
    pub async fn delivers_to(
        &self,
        group: &str,
        size: usize,
        devices: usize,
    ) -> anyhow::Result<()> {
        let names: Vec<String> = (0..size).map(|n| format!("{group}-{n}")).collect();
        for name in &names {
            let member = Member { name, group, size, devices, delivery: "agent", record: false };
            self.join(member).await?;
        }
        let mut all = BTreeSet::new();
        for name in &names {
            self.running(name).await?;
            let told = self.annotated(name, "device_id").await?;
            let given = self.given(name, "ASCEND_VISIBLE_DEVICES").await?;
            ensure!(
                told == given && told.len() == devices,
                "annotation {told:?}, container {given:?}"
            );
            all.extend(told);
            let waited =
                LogParams { container: Some("wait-ranktable".to_owned()), ..LogParams::default() };
            let said = self.pods().logs(name, &waited).await?;
            ensure!(
                said.contains(&format!("{TABLE} is ready")),
                "wait-ranktable of {name} said: {said}"
            );
        }
        let maps: Api<ConfigMap> = self.world.api();
        let record = maps.get(&format!("{group}-ranktable")).await?;
        let table =
            record.data.unwrap_or_default().remove("ranktable.json").context("an empty record")?;
        let listed: BTreeSet<String> = device_ids(&table)?.into_iter().collect();
        ensure!(listed == all, "table {listed:?}, annotations {all:?}");
        for name in &names {
            let read =
                self.kubectl(&["exec", name, "--container", "main", "--", "cat", TABLE]).await?;
            ensure!(read == table, "{name} reads {read}, the record says {table}");
        }
        for name in &names {
            self.end(name).await?;
        }
        Ok(())
    }
}

/// The ids of the devices in a table.
pub fn device_ids(table: &str) -> anyhow::Result<Vec<String>> {
    let table: Value = serde_json::from_str(table)?;
    let servers = table["server_list"].as_array().into_iter().flatten();
    let devices = servers.flat_map(|server| server["device"].as_array().into_iter().flatten());
    Ok(devices.filter_map(|one| one["device_id"].as_str()).map(str::to_owned).collect())
}

/// The file system of a pod's main container, through a process in it.
pub fn root_of(pod: &Pod) -> anyhow::Result<PathBuf> {
    let uid = pod.uid().context("no uid")?;
    for process in std::fs::read_dir("/proc")?.flatten() {
        let path = process.path();
        let holds = |file: &str, word: &str| {
            std::fs::read_to_string(path.join(file)).is_ok_and(|text| text.contains(word))
        };
        if holds("cgroup", &format!("/pod{uid}/")) && holds("cmdline", "trap exit TERM") {
            return Ok(path.join("root"));
        }
    }
    anyhow::bail!("no process of pod {} is seen", pod.name_any())
}
