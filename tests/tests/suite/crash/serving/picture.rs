//! All that there is of a ModelServing, without what differs from one to the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use muster_modelserving::shape::Shape;
use muster_tests::World;
use muster_tests::world::jobset::phase;
use muster_tests::world::serving::{condition_of, selector};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Act;
use crate::suite::ranktable::{condition, file_of, table};

/// What there is, by name; the name of the ModelServing is `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// With whether they were rolled.
    pods: Vec<(String, bool)>,
    services: Vec<String>,
    revisions: Vec<String>,
    records: Vec<String>,
    status: Value,
}

/// The uids of all pods that a ModelServing ever had.
pub struct Uids {
    seen: Arc<Mutex<BTreeSet<String>>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Uids {
    /// From now on.
    pub fn watch(world: &World, serving: &str) -> Self {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (own, pods) = (seen.clone(), world.api::<Pod>());
        let config = watcher::Config::default().labels(&selector(serving));
        let watch = tokio::spawn(async move {
            let changes = watcher(pods, config).default_backoff().touched_objects();
            pin_mut!(changes);
            while let Some(change) = changes.next().await {
                own.lock().extend(change.ok().and_then(|pod| pod.uid()));
            }
        });
        Self { seen, watch }
    }

    /// How many there were until now.
    pub fn count(&self) -> usize {
        self.seen.lock().len()
    }
}

impl Drop for Uids {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Picture {
    /// The picture when an act is over; an error as long as it is not.
    pub async fn take(world: &World, shape: Shape, name: &str, act: Act) -> Result<Self> {
        let pods = world.pods(&selector(name)).await?;
        let want = act.pods(shape);
        let live = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let running = live.filter(|pod| phase(pod) == "Running").count();
        ensure!(pods.len() == want && running == want, "{running} of {} pods run", pods.len());
        let is_rolled = |pod: &Pod| json!(pod.spec).to_string().contains("ROLLED");
        let rolled = pods.iter().filter(|pod| is_rolled(pod)).count();
        ensure!(
            act == Act::End || rolled == if act.is_rolled() { want } else { 0 },
            "{rolled} rolled"
        );

        let own = ListParams::default().labels(&selector(name));
        let plain = |name_any: String| name_any.replace(name, "S");
        let maps = world.api::<ConfigMap>().list(&ListParams::default()).await?.items;
        let maps: Vec<ConfigMap> = maps
            .into_iter()
            .filter(|map| map.name_any().starts_with(&format!("{name}-")))
            .collect();
        for map in &maps {
            let told = condition(map, "RanktableDelivered").unwrap_or_default();
            ensure!(told.0 == "True", "{}: {told:?}", map.name_any());
            for pod in &pods {
                ensure!(
                    file_of(world, pod)? == table(map),
                    "{} reads another table",
                    pod.name_any()
                );
            }
        }
        let object = world.servings(shape).get_opt(name).await?;
        ensure!(object.is_some() == (act != Act::End), "{object:?}");
        Ok(Self {
            pods: pods.iter().map(|pod| (plain(pod.name_any()), is_rolled(pod))).collect(),
            services: names(world.api::<Service>().list(&own).await?.items, plain),
            revisions: names(world.api::<ControllerRevision>().list(&own).await?.items, plain),
            records: names(maps, plain),
            status: serde_json::from_str(&plain(status(json!(object))?.to_string()))?,
        })
    }
}

fn names<K: ResourceExt>(list: Vec<K>, plain: impl Fn(String) -> String) -> Vec<String> {
    let mut names: Vec<String> = list.iter().map(|one| plain(one.name_any())).collect();
    names.sort();
    names
}

/// The status, without times and without what is over; an error as long as it is about an older spec or not available.
fn status(object: Value) -> Result<Value> {
    if object.is_null() {
        return Ok(Value::Null);
    }
    let mut status = object["status"].clone();
    let observed = &status["observedGeneration"];
    ensure!(*observed == object["metadata"]["generation"], "{observed} observed");
    let available = condition_of(&object, "Available").unwrap_or_default();
    ensure!(available.0 == "True", "not available: {status}");
    ensure!(status["availableReplicas"] == 1 && status["replicas"] == 1, "{status}");
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["status"] == "True");
        for condition in conditions.iter_mut() {
            *condition = json!([condition["type"], condition["status"], condition["reason"]]);
        }
        conditions.sort_by_key(Value::to_string);
    }
    Ok(status)
}
