//! A pod of a rank group: what its marks say, what it holds, and where its table goes. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use muster_program::duration;
use muster_proto::delivery::{Digest, Place};
use muster_ranktable::{MOST_PODS, Order};

use crate::names;
use muster_hub::registry::{AgentReport, TableReport};

/// A rank group: pods of one namespace that must agree on one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// Namespace.
    pub namespace: String,
    /// The value of the pods' label.
    pub name: String,
}

/// What a pod's marks ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// How many pods the group has.
    pub size: Result<usize, String>,
    /// The ConfigMap of the template.
    pub template: Option<String>,
    /// How long a table may take.
    pub timeout: Option<Duration>,
    /// The order of ranks.
    pub order: Option<Order>,
    /// Whether it is a ModelServing's: its ranks follow its pods, if nobody says otherwise.
    pub serving: bool,
}

/// Whether a pod takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, or will.
    Live,
    /// It has done its work.
    Done,
    /// It is being deleted, or has failed.
    Over,
}

/// How a pod gets its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// The agent writes it into this emptyDir.
    Agent(Place),
    /// The kubelet shows the record in a volume.
    ConfigMap {
        /// The generation that the pod was told of.
        announced: Option<u64>,
    },
    /// It has no volume of ours: it was made without injection.
    None,
}

/// One pod of a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// What tables are made of, beside what it holds.
    pub pod: muster_ranktable::Pod,
    /// Its marks.
    pub marks: Marks,
    /// Whether it takes part.
    pub life: Life,
    /// Whether its main containers have been started.
    pub started: bool,
    /// When it was created.
    pub created: Timestamp,
    /// Who owns it.
    pub owner: Option<OwnerReference>,
    /// How it gets its table.
    pub home: Home,
    /// What it holds; none while that is not known.
    pub devices: Option<Devices>,
    /// Whether the agent of its node has spoken of it, even if only to say that nothing it holds works.
    pub reported: bool,
    /// What the agent of its node reports of the pod and the node.
    pub report: Option<AgentReport>,
    /// What the agent of its node says of its table.
    pub table: TableReport,
}

/// What a pod holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// As its node's agent reports it: in the words of the annotation that the agent writes, which digests are made of. Tables are
    /// made of the report itself.
    Reported(Arc<str>),
    /// As its annotation says, whoever wrote that.
    Annotated(Arc<str>),
}

// === impl Devices ===

impl Devices {
    /// In the words of the annotation.
    pub fn text(&self) -> &str {
        match self {
            Self::Reported(text) | Self::Annotated(text) => text,
        }
    }
}

// === impl GroupKey ===

impl GroupKey {
    /// The group of a pod, if it is in one.
    pub fn of(pod: &Pod) -> Option<Self> {
        let name = pod.metadata.labels.as_ref()?.get(names::RANK_GROUP)?;
        let namespace = pod.metadata.namespace.clone()?;
        (!name.is_empty()).then(|| Self { namespace, name: name.clone() })
    }
}

impl std::fmt::Display for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Marks ===

impl Marks {
    /// Reads them.
    pub fn of(pod: &Pod) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        let get = |key: &str| {
            let value = annotations?.get(key)?.trim();
            (!value.is_empty()).then_some(value)
        };
        let first = |keys: &[&str]| keys.iter().find_map(|key| get(key));
        let size = match first(&[names::RANK_GROUP_SIZE, names::LWS_SIZE]) {
            None => Err(format!(
                "annotation {} is missing: set it to the number of pods",
                names::RANK_GROUP_SIZE
            )),
            Some(text) => match text.parse::<usize>() {
                Ok(size) if (1..=MOST_PODS).contains(&size) => Ok(size),
                _ => Err(format!(
                    "annotation {} is {:?}: it must be a number from 1 to {MOST_PODS}",
                    names::RANK_GROUP_SIZE,
                    text.chars().take(40).collect::<String>()
                )),
            },
        };
        let labels = pod.metadata.labels.as_ref();
        let unknown = |keys: &[&str], text: &str, wanted: &str| {
            let text: String = text.chars().take(40).collect();
            format!("annotation {} is {text:?}: use {wanted}", keys.first().unwrap_or(&""))
        };
        let timeout = first(&names::RANKTABLE_TIMEOUT).map(|text| {
            let problem = |_| unknown(&names::RANKTABLE_TIMEOUT, text, "a time such as 90s or 10m");
            duration::setting(text).map_err(problem)
        });
        let order = first(&names::RANKTABLE_ORDER).map(|text| {
            let problem = || unknown(&names::RANKTABLE_ORDER, text, Order::WORDS);
            Order::parse(text).ok_or_else(problem)
        });
        // Marks that cannot be read all count as one that cannot.
        let (timeout, order) = (timeout.transpose(), order.transpose());
        let problem = timeout.as_ref().err().or(order.as_ref().err()).cloned();
        Self {
            size: size.and_then(|size| problem.map_or(Ok(size), Err)),
            template: first(&names::RANKTABLE_TEMPLATE).map(str::to_owned),
            timeout: timeout.unwrap_or_default(),
            order: order.unwrap_or_default(),
            serving: labels.is_some_and(|labels| labels.contains_key(names::SERVING_ROLE)),
        }
    }
}

// === impl Member ===

impl Member {
    /// Reads a pod. What it holds and what it has been given is not known yet.
    pub fn of(key: &GroupKey, pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let uid = metadata.uid.clone().unwrap_or_default();
        let life = match status.and_then(|status| status.phase.as_deref()) {
            _ if metadata.deletion_timestamp.is_some() => Life::Over,
            Some("Failed") => Life::Over,
            Some("Succeeded") => Life::Done,
            _ => Life::Live,
        };
        let volume = spec
            .and_then(|spec| spec.volumes.as_ref())
            .and_then(|volumes| volumes.iter().find(|volume| volume.name == names::VOLUME));
        let home = home(key, volume, &uid, &annotations);
        let address = |pick: fn(&k8s_openapi::api::core::v1::PodStatus) -> Option<&String>| {
            status.and_then(pick).cloned().unwrap_or_default()
        };
        let owners = metadata.owner_references.iter().flatten();
        Self {
            marks: Marks::of(pod),
            life,
            started: status.and_then(|status| status.phase.as_deref()) == Some("Running"),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
            owner: owners.clone().find(|owner| owner.controller == Some(true)).cloned(),
            home,
            devices: None,
            reported: false,
            report: None,
            table: TableReport::default(),
            pod: muster_ranktable::Pod {
                name: metadata.name.clone().unwrap_or_default(),
                namespace: key.namespace.clone(),
                uid,
                node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
                pod_ip: address(|status| status.pod_ip.as_ref()),
                host_ip: address(|status| status.host_ip.as_ref()),
                labels: metadata.labels.clone().unwrap_or_default(),
                annotations,
                reported: None,
            },
        }
    }

    /// What it was told is not forgotten because an older version of the pod was seen after that.
    pub fn remember(&mut self, before: &Self) {
        if let (Home::ConfigMap { announced }, Home::ConfigMap { announced: known }) =
            (&mut self.home, &before.home)
        {
            *announced = (*announced).max(*known);
        }
    }

    /// Whether it can read this generation of the table, as far as is known.
    pub fn has(&self, generation: u64, digest: Digest) -> bool {
        match &self.home {
            Home::Agent(_) => self.table.delivered == Some((generation, digest)),
            Home::ConfigMap { announced } => *announced == Some(generation),
            Home::None => true,
        }
    }
}

fn home(
    key: &GroupKey,
    volume: Option<&Volume>,
    uid: &str,
    annotations: &std::collections::BTreeMap<String, String>,
) -> Home {
    let file = annotations.get(names::RANKTABLE_FILE).filter(|file| !file.is_empty());
    match (volume, file) {
        (Some(volume), Some(file)) if volume.empty_dir.is_some() => Home::Agent(Place {
            pod_uid: uid.to_owned(),
            volume: volume.name.clone(),
            file: file.clone(),
        }),
        (Some(volume), _) => match &volume.config_map {
            Some(source) if source.name == names::record(&key.name) => Home::ConfigMap {
                announced: annotations
                    .get(names::RANKTABLE_GENERATION)
                    .and_then(|text| text.parse().ok()),
            },
            _ => Home::None,
        },
        _ => Home::None,
    }
}
