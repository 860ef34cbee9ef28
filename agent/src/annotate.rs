//! Tells each pod, in its annotation `ascend.com/ranktable`, which devices it holds.
//!
//! ```text
//!   PodDevices, Inventory ──▶ desired (pure) ──▶ plan (pure): what is due ──▶ server-side apply of one key
//!   PodMeta: what is there ─────────────────────────▲                             │
//!                                                    └──── done, or again later ◀──┘
//! ```
//!
//! The annotation appears when all is known of every device of the pod, and not before. It is written by apply with the
//! pod's uid, so that another pod of the same name is never hit, and only where it differs from what is there: an
//! agent that starts again writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, core::PartialObjectMeta};
use muster_proto::annotation::{self, desired, lacks_address};
use muster_proto::device::{Inventory, Vendor};
use muster_proto::pod::{PodDevices, PodRef};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::names;
use crate::pods::PodMap;
use crate::pods::api_error::ApiError;
use crate::problem::{Area, Finding, Problems};

mod metrics;
mod plan;

pub use metrics::Metrics;
use plan::{Plan, Write, WriteOutcome};

/// How many writes are under way at once.
const MOST_IN_FLIGHT: usize = 8;

/// How long one write may take.
const LIMIT: Duration = Duration::from_secs(15);

/// What [`run`] needs to know.
#[derive(Clone, Debug)]
pub struct AnnotateInputs {
    /// The pods of this node.
    pub pods: watch::Receiver<Arc<PodMap>>,
    /// Which of them hold which devices.
    pub devices: watch::Receiver<Arc<Vec<PodDevices>>>,
    /// The devices of this node.
    pub inventory: watch::Receiver<Arc<Inventory>>,
    /// The address by which others know the node, as soon as it is known.
    pub server_id: watch::Receiver<Option<String>>,
}

/// What is wrong with a pod that holds devices of two vendors.
pub fn mixed(pod: &PodDevices) -> Option<Finding> {
    let vendors: BTreeSet<Vendor> = pod.devices.iter().map(|held| held.vendor).collect();
    (vendors.len() > 1).then(|| {
        let message = "it holds devices of two vendors, which no rank table can; its annotation names the Ascend \
                       devices only";
        Finding::new("mixed-vendors", format!("{} devices", pod.pod), message)
    })
}

/// What is wrong with a pod that holds devices whose address is not known.
pub fn address_missing(pod: &PodDevices, inventory: &Inventory) -> Option<Finding> {
    if !inventory.settled {
        return None;
    }
    let ids: BTreeSet<u32> = pod
        .devices
        .iter()
        .filter_map(|held| inventory.device(held.vendor, held.id))
        .filter(|device| lacks_address(device))
        .map(|device| device.id)
        .collect();
    (!ids.is_empty()).then(|| {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        let message = format!(
            "pod {} holds NPU {}, whose port has no address that is known; its annotation is not written, and not \
             changed where there is one: look at /etc/hccn.conf and at what hccn_tool says",
            pod.pod,
            ids.join(", "),
        );
        Finding::new("address-missing", format!("{} addresses", pod.pod), message)
    })
}

/// Keeps the annotations of this node's pods right until nobody tells of them any more.
pub async fn run(client: Client, sources: AnnotateInputs, problems: Problems, metrics: Metrics) {
    let AnnotateInputs { mut pods, mut devices, mut inventory, mut server_id } = sources;
    let mut plan = Plan::default();
    let mut writes = FuturesUnordered::new();
    let mut odd: BTreeSet<String> = BTreeSet::new();
    loop {
        let wanted = {
            let (devices, inventory) =
                (devices.borrow_and_update().clone(), inventory.borrow_and_update().clone());
            let server_id = server_id.borrow_and_update().clone().unwrap_or_default();
            let missing = devices.iter().filter_map(|pod| address_missing(pod, &inventory));
            let findings: Vec<Finding> = devices.iter().filter_map(mixed).chain(missing).collect();
            let subjects: BTreeSet<String> =
                findings.iter().map(|finding| finding.subject.clone()).collect();
            for solved in odd.difference(&subjects) {
                problems.clear(Area::Annotate, solved);
            }
            odd = subjects;
            for finding in findings {
                problems.raise(Area::Annotate, finding);
            }
            let text =
                |pod: &PodDevices| Some((pod.pod.clone(), desired(pod, &inventory, &server_id)?));
            devices.iter().filter_map(text).collect()
        };
        let gone = plan.set_desired(wanted, &pods.borrow_and_update().clone(), Instant::now());
        for pod in gone {
            problems.clear(Area::Annotate, &pod.to_string());
        }
        for write in plan.due(MOST_IN_FLIGHT.saturating_sub(writes.len()), Instant::now()) {
            writes.push(apply(client.clone(), write));
        }
        let next = plan.next().filter(|_| writes.len() < MOST_IN_FLIGHT);
        let timer = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = pods.changed() => if changed.is_err() { return },
            changed = devices.changed() => if changed.is_err() { return },
            changed = inventory.changed() => if changed.is_err() { return },
            changed = server_id.changed() => if changed.is_err() { return },
            Some((pod, outcome)) = writes.next() => {
                let now = Instant::now();
                metrics.count(outcome.reason());
                if let Some(since) = plan.done(&pod, &outcome, now) {
                    metrics.took(now.duration_since(since));
                }
                // What became of a pod that is no longer thought of is nobody's problem.
                if let Some(attempts) = plan.attempts(&pod) {
                    report(&problems, &pod, outcome, attempts);
                }
            }
            () = timer => {}
        }
    }
}

fn report(problems: &Problems, pod: &PodRef, outcome: WriteOutcome, attempts: u32) {
    let subject = pod.to_string();
    match outcome {
        WriteOutcome::Applied => {
            problems.clear(Area::Annotate, &subject);
            tracing::info!(pod = %pod, uid = pod.uid, "annotation written");
        }
        // The pod may just have gone, or another has its name: the watch tells soon. Only what lasts is a problem.
        WriteOutcome::Refused(ApiError { code: 404 | 409 | 422, .. }) if attempts < 3 => {}
        WriteOutcome::Refused(refusal) => {
            problems.raise(Area::Annotate, Finding::new(refusal.reason, subject, refusal.message));
        }
        WriteOutcome::Late => {
            let message = format!("the API gave no answer within {LIMIT:?}");
            problems.raise(Area::Annotate, Finding::new("timeout", subject, message));
        }
    }
}

async fn apply(client: Client, write: Write) -> (PodRef, WriteOutcome) {
    let Write { pod, text } = write;
    let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client, &pod.namespace);
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            // Only this pod, not another of its name; and no pod is made where there is none.
            "uid": pod.uid,
            "annotations": { annotation::KEY: text },
        },
    });
    let params = PatchParams::apply(names::FIELD_MANAGER).force();
    let patch = Patch::Apply(&object);
    let sent = tokio::time::timeout(LIMIT, api.patch(&pod.name, &params, &patch)).await;
    let outcome = match sent {
        Ok(Ok(_)) => WriteOutcome::Applied,
        Ok(Err(error)) => WriteOutcome::Refused(ApiError::of(&error, "patch pods")),
        Err(_late) => WriteOutcome::Late,
    };
    (pod, outcome)
}

#[cfg(test)]
mod tests;
