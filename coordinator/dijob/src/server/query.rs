//! GET: what is there.

use serde_json::{Value, json};

use super::answer::{Answer, Refusal, Replicas};
use super::request;
use super::view::{self, View};
use crate::api::DIJob;
use crate::pod::Pod;
use crate::role::Role;

const GOT: &str = "successfully get replicas";

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// In which namespace; everywhere if there is none.
    pub namespace: Option<String>,
    /// Of which coordinator.
    pub coordinator: Option<String>,
    /// Of which aggregator.
    pub aggregator: Option<String>,
    /// Which pod.
    pub name: Option<String>,
}

// === impl Query ===

impl Query {
    /// Reads a query: keys in any case, the first of each counts, an empty one is none.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let mut query = Self::default();
        let mut seen = [false; 4];
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            let (at, place) = match key.to_ascii_lowercase().as_str() {
                "namespace" => (0, &mut query.namespace),
                "coordinator" => (1, &mut query.coordinator),
                "aggregator" => (2, &mut query.aggregator),
                "name" => (3, &mut query.name),
                _ => {
                    let key: String = key.chars().take(100).collect();
                    return Err(Refusal::bad(format!("request param {key} is not supported")));
                }
            };
            let Some(seen) = seen.get_mut(at) else { continue };
            if !std::mem::replace(seen, true) && !value.is_empty() {
                let value = value.into_owned();
                *place = Some(match at {
                    0 => request::namespace(value)?,
                    _ => request::name(value)?,
                });
            }
        }
        Ok(query)
    }
}

/// The answer to a query.
pub fn answer(view: &impl View, query: &str) -> Answer {
    match data(view, query) {
        Ok(data) => Answer::success(GOT, data),
        Err(refusal) => refusal.answer_to_query(),
    }
}

fn data(view: &impl View, query: &str) -> Result<Value, Refusal> {
    let query = Query::read(query)?;
    let Some(namespace) = &query.namespace else { return Ok(list(view, None)) };
    if let Some(coordinator) = &query.coordinator {
        let (_, job) = view::resolve(view, namespace, coordinator)?;
        return Ok(json!(of_coordinator(view, &job, coordinator)));
    }
    if let Some(aggregator) = &query.aggregator {
        let (_, job) = view::resolve(view, namespace, aggregator)?;
        return Ok(json!(of_aggregator(view, &job, aggregator)));
    }
    if let Some(name) = &query.name {
        let (pod, job) = view::resolve(view, namespace, name)?;
        return Ok(one(view, &job, &pod));
    }
    Ok(list(view, Some(namespace)))
}

/// One element for each coordinator whose job is there.
fn list(view: &impl View, namespace: Option<&str>) -> Value {
    let pods = view.pods(namespace);
    let coordinators =
        pods.iter().filter(|pod| pod.role() == Some(Role::Coordinator) && !pod.is_terminating());
    let element = |pod: &std::sync::Arc<Pod>| {
        let (_, job) = view::resolve(view, pod.namespace(), pod.name()).ok()?;
        Some(json!(of_coordinator(view, &job, pod.name())))
    };
    coordinators.filter_map(element).collect()
}

fn of_coordinator(view: &impl View, job: &DIJob, coordinator: &str) -> Replicas {
    let pods = view::replicas(view, job);
    let urls =
        |role: Role| pods.iter().filter(move |pod| pod.role() == Some(role)).map(|pod| pod.url());
    Replicas {
        namespace: job.namespace().to_owned(),
        coordinator: coordinator.to_owned(),
        collectors: Some(urls(Role::Collector).collect()),
        learners: Some(urls(Role::Learner).chain(urls(Role::Aggregator)).collect()),
    }
}

/// One address for each process.
fn of_aggregator(view: &impl View, job: &DIJob, aggregator: &str) -> Replicas {
    let pods = view::learners_of(view, job, aggregator);
    let urls = pods.iter().flat_map(|pod| {
        let further = pod.gpu_ports().into_iter().map(|port| pod.url_at(port));
        std::iter::once(pod.url()).chain(further.collect::<Vec<_>>())
    });
    Replicas {
        namespace: job.namespace().to_owned(),
        coordinator: aggregator.to_owned(),
        collectors: None,
        learners: Some(urls.collect()),
    }
}

fn one(view: &impl View, job: &DIJob, pod: &Pod) -> Value {
    let pods = view::replicas(view, job);
    let coordinator = pods.iter().find(|pod| pod.role() == Some(Role::Coordinator));
    let usual = || format!("{}-{}", job.name(), Role::Coordinator.word());
    json!({
        "namespace": job.namespace(),
        "coordinator": coordinator.map_or_else(usual, |pod| pod.name().to_owned()),
        "replicaType": pod.role().map_or("", Role::word),
        "name": pod.name(),
    })
}
