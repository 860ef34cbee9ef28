//! A cluster in memory: what a case is given, and what was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_dijob::api::{self, AggregatorConfig, DIJob, Template};
use muster_dijob::names;
use muster_dijob::pod::{Pod, amount};
use muster_dijob::server::View;
use serde_json::Value;

/// A namespace and a name in it.
pub type Place = (String, String);

/// A cluster.
#[derive(Default)]
pub struct Cluster {
    /// Pods.
    pub pods: BTreeMap<Place, Arc<Pod>>,
    /// Services.
    pub services: BTreeMap<Place, Value>,
    /// Jobs.
    pub jobs: BTreeMap<Place, Arc<DIJob>>,
    aggregators: BTreeMap<Place, Arc<Template>>,
    nodes: Vec<Value>,
}

impl Cluster {
    /// With what a case is given.
    pub fn new(objects: &Value) -> Self {
        let mut cluster = Self::default();
        for object in objects.as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
            let place = (text("namespace"), text("name"));
            match object["kind"].as_str().unwrap() {
                "Pod" => drop(cluster.pods.insert(place, Arc::new(api::read(object).unwrap()))),
                "Service" => drop(cluster.services.insert(place, object.clone())),
                "DIJob" => drop(cluster.jobs.insert(place, Arc::new(api::read(object).unwrap()))),
                "AggregatorConfig" => {
                    let config: AggregatorConfig = api::read(object).unwrap();
                    cluster.aggregators.insert(place, Arc::new(config.spec.aggregator.template));
                }
                "Node" => cluster.nodes.push(object.clone()),
                "Namespace" => {}
                other => panic!("nobody knows the kind {other}"),
            }
        }
        cluster
    }
}

impl View for Cluster {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn pods(&self, namespace: Option<&str>) -> Vec<Arc<Pod>> {
        let wanted =
            |pod: &&Arc<Pod>| namespace.is_none_or(|namespace| pod.namespace() == namespace);
        self.pods.values().filter(wanted).cloned().collect()
    }

    fn pods_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods(Some(namespace));
        pods.retain(|pod| pod.label(names::label::JOB) == job);
        pods
    }

    fn job(&self, namespace: &str, name: &str) -> Option<Arc<DIJob>> {
        self.jobs.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn aggregator(&self) -> Option<Arc<Template>> {
        let place = (names::AGGREGATOR_NAMESPACE.to_owned(), names::AGGREGATOR_NAME.to_owned());
        self.aggregators.get(&place).cloned()
    }

    fn devices(&self, resource: &str) -> Vec<u64> {
        let count = |node: &Value| {
            let amount = amount(&node["status"]["allocatable"][resource])?.exact_units()?;
            u64::try_from(amount).ok()
        };
        self.nodes.iter().map(|node| count(node).unwrap_or_default()).collect()
    }

    fn was_deleted(&self, _: &str, _: &str) -> bool {
        false
    }
}
