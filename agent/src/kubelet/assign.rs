//! Which pod holds which device.
//!
//! Nobody knows it alone: pod-resources knows names but no uids, the checkpoint knows uids but no names, both know the
//! ids that the kubelet chose, and under a scheduler that chooses devices itself those ids are wrong. Per pod, the
//! first of these that fits is believed:
//!
//! ```text
//!   1  the plugin's answer in the checkpoint   for this uid, as many as the kubelet gave
//!   2  annotation huawei.com/AscendReal        as many as the kubelet gave
//!   3  annotation of the scheduler             as many, and kltDev names the kubelet's ids
//!   4  pod-resources, where the checkpoint does not know better
//!   5  the checkpoint's ids                    unless the scheduler chose others, and nothing tells who is right
//! ```
//!
//! Whoever may create a pod may annotate it, but only root writes the checkpoint: annotations that contradict it are
//! findings. A pod of which one device cannot be told is unresolved as a whole: a table with a hole is worse than none.
//! What was known of it before stays meanwhile. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Inventory, Vendor};
use muster_proto::pod::{Held, PodDevices, PodRef};
use muster_proto::podresources::v1::{ListPodResourcesResponse, PodResources};

use super::checkpoint::{Checkpoint, CheckpointEntry};
use super::device_id::{DeviceId, ResourceNames};
use crate::names;
use crate::pods::{PodMap, PodMeta};
use crate::problem::Finding;

/// What [`assign`] decides from.
#[derive(Clone, Copy, Debug)]
pub struct AssignInput<'a> {
    /// The pods of this node.
    pub pods: &'a PodMap,
    /// What the kubelet's socket said, if it did.
    pub listed: Option<&'a ListPodResourcesResponse>,
    /// What the kubelet's checkpoint says, if it could be read.
    pub checkpoint: Option<&'a Checkpoint>,
    /// The devices that there are.
    pub inventory: &'a Inventory,
    /// The resources that are ours.
    pub resources: &'a ResourceNames,
    /// What was decided the last time.
    pub last: &'a [PodDevices],
    /// Uids that the checkpoint has though the kubelet has not listed them for a while: their pods have ended.
    pub ended: &'a BTreeSet<String>,
}

/// What it decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The pods that hold devices, by namespace and name.
    pub pods: Vec<PodDevices>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The pods that hold something that could not be told yet.
    pub unresolved: Vec<PodRef>,
}

/// Why a pod's devices cannot be told.
#[derive(Debug, PartialEq)]
enum UnresolvedError {
    /// An id means nothing to us.
    Unknown(String),
    /// The scheduler chose others than the kubelet, and nothing says what the plugin gave.
    Unconfirmed,
}

/// What is known of one pod.
#[derive(Debug)]
enum PodGrants {
    /// What its containers hold: perhaps nothing.
    Grants(Vec<Grant>),
    /// Neither socket nor checkpoint says anything of it.
    Nothing,
    /// The checkpoint has it and the kubelet does not list it, or not yet.
    NotListed,
}

/// What one container holds of one resource, in the kubelet's and in the plugin's words.
#[derive(Debug)]
struct Grant {
    container: String,
    resource: String,
    vendor: Vendor,
    ids: BTreeSet<String>,
    really: Option<Vec<String>>,
}

/// A grant's devices.
type Devices = BTreeSet<DeviceId>;

/// Joins all that is known.
pub fn assign(known: AssignInput<'_>) -> Assignment {
    let mut out = Assignment::default();
    let listed: BTreeMap<(&str, &str), &PodResources> = known
        .listed
        .into_iter()
        .flat_map(|listed| &listed.pod_resources)
        .map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod))
        .collect();
    for ((namespace, name), meta) in known.pods {
        let last = || known.last.iter().find(|last| last.pod == meta.pod).cloned();
        let grants = match pod_grants(known, listed.get(&(namespace, name)).copied(), meta) {
            PodGrants::Grants(grants) if grants.is_empty() => continue,
            PodGrants::Grants(grants) => grants,
            PodGrants::NotListed if known.ended.contains(meta.kubelet_uid()) => continue,
            PodGrants::NotListed => {
                out.unresolved.push(meta.pod.clone());
                out.pods.extend(last());
                continue;
            }
            PodGrants::Nothing => {
                if let Some(last) = last() {
                    out.unresolved.push(meta.pod.clone());
                    out.pods.push(last);
                }
                continue;
            }
        };
        match resolve(&grants, meta, known.inventory, &mut out.findings) {
            Ok(held) => {
                unknown(&held, meta, known.inventory, &mut out.findings);
                out.pods.push(PodDevices { pod: meta.pod.clone(), devices: held });
            }
            Err(unresolved) => {
                out.unresolved.push(meta.pod.clone());
                out.pods.extend(last());
                // Before all sources were heard the inventory may simply not have it yet.
                if let UnresolvedError::Unknown(id) = unresolved
                    && known.inventory.settled
                {
                    out.findings.push(device_unknown(&meta.pod, &id));
                }
            }
        }
    }
    held_twice(&out.pods, known.pods, &mut out.findings);
    out
}

fn pod_grants(known: AssignInput<'_>, listed: Option<&PodResources>, meta: &PodMeta) -> PodGrants {
    let uid = meta.kubelet_uid();
    let mut by_place: BTreeMap<(&str, &str), Grant> = BTreeMap::new();
    let empty = |container: &str, resource: &str| {
        let vendor = known.resources.vendor(resource)?;
        let (container, resource) = (container.to_owned(), resource.to_owned());
        Some(Grant { container, resource, vendor, ids: BTreeSet::new(), really: None })
    };
    // A checkpoint that was read as a whole and has no entry of this uid: what is listed under the pod's name was
    // given to its predecessor.
    let decides = |checkpoint: &&Checkpoint| {
        let complete = checkpoint.unread == 0 && !checkpoint.entries.is_empty();
        complete || checkpoint.of(uid).next().is_some()
    };
    if let Some(checkpoint) = known.checkpoint.filter(decides) {
        let ours = |entry: &CheckpointEntry| known.resources.vendor(&entry.resource).is_some();
        if known.listed.is_some() && listed.is_none() && checkpoint.of(uid).any(ours) {
            return PodGrants::NotListed;
        }
        // What plain init containers held, main containers hold after them; the kubelet does not list them.
        let runs = |container: &str| {
            listed.is_none_or(|pod| pod.containers.iter().any(|known| known.name == container))
        };
        for entry in checkpoint.of(uid).filter(|entry| runs(&entry.container)) {
            let Some(mut grant) = empty(&entry.container, &entry.resource) else { continue };
            grant.really = entry.really(grant.vendor);
            grant.ids.extend(entry.ids.iter().cloned());
            by_place.insert((&entry.container, &entry.resource), grant);
        }
    } else if let Some(pod) = listed {
        for container in &pod.containers {
            for devices in &container.devices {
                let Some(fresh) = empty(&container.name, &devices.resource_name) else { continue };
                // One entry per device, and one more per NUMA node of it.
                let place = (container.name.as_str(), devices.resource_name.as_str());
                let grant = by_place.entry(place).or_insert(fresh);
                grant.ids.extend(devices.device_ids.iter().cloned());
            }
        }
    } else if known.listed.is_none() {
        return PodGrants::Nothing;
    }
    PodGrants::Grants(by_place.into_values().filter(|grant| !grant.ids.is_empty()).collect())
}

/// The devices of a pod, sorted.
fn resolve(
    grants: &[Grant],
    meta: &PodMeta,
    inventory: &Inventory,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Held>, UnresolvedError> {
    let (npus, gpus): (Vec<&Grant>, Vec<&Grant>) =
        grants.iter().partition(|grant| grant.vendor == Vendor::Ascend);
    let mut held = BTreeSet::new();
    let mut hold = |grant: &Grant, devices: Devices| {
        held.extend(devices.into_iter().map(|DeviceId { vendor, id, part }| Held {
            vendor,
            id,
            container: grant.container.clone(),
            resource: grant.resource.clone(),
            part,
        }));
    };
    for (grant, devices) in npus.iter().zip(npus_of(&npus, meta, inventory, findings)?) {
        hold(grant, devices);
    }
    for grant in gpus {
        let devices = grant.answered(inventory).map_or_else(|| grant.given(inventory), Ok);
        hold(grant, devices.map_err(UnresolvedError::Unknown)?);
    }
    Ok(held.into_iter().collect())
}

fn npus_of(
    grants: &[&Grant],
    meta: &PodMeta,
    inventory: &Inventory,
    findings: &mut Vec<Finding>,
) -> Result<Vec<Devices>, UnresolvedError> {
    let given: BTreeSet<&String> = grants.iter().flat_map(|grant| &grant.ids).collect();
    let answered: Vec<Option<Devices>> =
        grants.iter().map(|grant| grant.answered(inventory)).collect();
    // An annotation counts when it names as many devices as the kubelet gave.
    let annotated = |key: &str, count: usize| -> Option<Devices> {
        let text = meta.annotations.get(key)?;
        let words: BTreeSet<&str> = text.split(',').map(str::trim).collect();
        let read: Option<Devices> =
            words.iter().map(|id| DeviceId::parse(Vendor::Ascend, id, inventory)).collect();
        read.filter(|devices| devices.len() == count)
    };
    // What the scheduler chose, by resource.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for grant in grants {
        *counts.entry(&grant.resource).or_default() += grant.ids.len();
    }
    let chosen: BTreeMap<&str, Devices> = counts
        .iter()
        .filter_map(|(resource, count)| Some((*resource, annotated(resource, *count)?)))
        .collect();
    let real = annotated(names::ASCEND_REAL, given.len());
    let all = |resource: Option<&str>| -> Option<Devices> {
        let mut all = Devices::new();
        let each = grants.iter().zip(&answered);
        for (_, answer) in each.filter(|(grant, _)| resource.is_none_or(|it| it == grant.resource))
        {
            all.extend(answer.clone()?);
        }
        Some(all)
    };
    let mut compare = |key: &str, said: Option<&Devices>, answer: Option<Devices>| {
        let ids = |devices: &Devices| devices.iter().map(|it| it.id).collect::<BTreeSet<u32>>();
        if let (Some(said), Some(answer)) = (said, answer)
            && ids(said) != ids(&answer)
        {
            findings.push(disagrees(&meta.pod, key, said, &answer));
        }
    };
    compare(names::ASCEND_REAL, real.as_ref(), all(None));
    for (resource, devices) in &chosen {
        compare(resource, Some(devices), all(Some(resource)));
    }
    if let Some(all) = answered.iter().cloned().collect::<Option<Vec<Devices>>>() {
        return Ok(all);
    }
    if let Some(shared) = real.and_then(|real| shared_out(real, grants, &answered)) {
        return Ok(shared);
    }
    let klt = meta.annotations.get(names::ASCEND_KUBELET);
    let confirmed = klt.is_some_and(|text| {
        let words: BTreeSet<&str> = text.split(',').map(str::trim).collect();
        words.into_iter().eq(given.iter().map(|id| id.as_str()))
    });
    if confirmed
        && counts.len() == 1
        && let Some(chosen) = chosen.values().next()
        && let Some(shared) = shared_out(chosen.clone(), grants, &answered)
    {
        return Ok(shared);
    }
    let each = grants.iter().zip(answered);
    let devices: Vec<Devices> = each
        .map(|(grant, answer)| answer.map_or_else(|| grant.given(inventory), Ok))
        .collect::<Result<_, _>>()
        .map_err(UnresolvedError::Unknown)?;
    // The plugin says a few seconds later what it really gave.
    let differs = |(resource, chosen): (&&str, &Devices)| {
        let its = grants.iter().zip(&devices).filter(|(grant, _)| grant.resource == **resource);
        let held: Devices = its.flat_map(|(_, devices)| devices.iter().cloned()).collect();
        held != *chosen
    };
    if let Some((resource, _)) = chosen.iter().find(|it| differs(*it)) {
        findings.push(unconfirmed(&meta.pod, resource));
        return Err(UnresolvedError::Unconfirmed);
    }
    Ok(devices)
}

/// Gives each container what the plugin answered, else as many as the kubelet gave it, lowest first. `None`: the plugin
/// gave something else.
fn shared_out(
    devices: Devices,
    grants: &[&Grant],
    answered: &[Option<Devices>],
) -> Option<Vec<Devices>> {
    let mut left = devices;
    for device in answered.iter().flatten().flatten() {
        if !left.remove(device) {
            return None;
        }
    }
    let mut left = left.into_iter();
    let share = |(grant, answer): (&&Grant, &Option<Devices>)| match answer {
        Some(answer) => answer.clone(),
        None => left.by_ref().take(grant.ids.len()).collect(),
    };
    Some(grants.iter().zip(answered).map(share).collect())
}

fn disagrees(pod: &PodRef, key: &str, said: &Devices, answer: &Devices) -> Finding {
    let list = |devices: &Devices| {
        let ids: Vec<String> = devices.iter().map(|device| device.id.to_string()).collect();
        ids.join(",")
    };
    let message = format!(
        "pod {pod}: its annotation {key} names NPUs {}, but the device plugin gave it NPUs {}, which is believed; \
         somebody else may have written the annotation",
        list(said),
        list(answer),
    );
    Finding::new("annotation-disagrees", format!("{pod}: {key}"), message)
}

// === impl Grant ===

impl Grant {
    /// What the kubelet's ids mean.
    fn given(&self, inventory: &Inventory) -> Result<Devices, String> {
        let parse =
            |id: &String| DeviceId::parse(self.vendor, id, inventory).ok_or_else(|| id.clone());
        self.ids.iter().map(parse).collect()
    }

    /// What the plugin's answer means, where it tells of as many whole devices as the kubelet gave. Slices are
    /// numbered by the kubelet alone, except those that the plugin cuts itself.
    fn answered(&self, inventory: &Inventory) -> Option<Devices> {
        let really = self.really.as_ref()?;
        let mut devices: Devices = really
            .iter()
            .map(|id| DeviceId::parse(self.vendor, id, inventory))
            .collect::<Option<_>>()?;
        if self.resource.ends_with("/npu-core") {
            devices = devices
                .into_iter()
                .map(|device| DeviceId { part: Some("npu-core".to_owned()), ..device })
                .collect();
            return (!devices.is_empty()).then_some(devices);
        }
        let whole = self.given(inventory).ok().is_none_or(|ids| ids.iter().all(DeviceId::is_whole));
        (whole && devices.len() == self.ids.len()).then_some(devices)
    }
}

fn unconfirmed(pod: &PodRef, key: &str) -> Finding {
    let message = format!(
        "pod {pod}: its annotation {key} names other NPUs than the kubelet gave, and neither the checkpoint nor {} tells \
         which the device plugin took; the pod is told of when one of them does: is the device plugin running?",
        names::ASCEND_REAL,
    );
    Finding::new("annotation-unconfirmed", format!("{pod}: {key}"), message)
}

fn device_unknown(pod: &PodRef, id: &str) -> Finding {
    let id: String = id.chars().take(64).collect();
    let message = format!(
        "pod {pod} holds device {id}, which this node does not have as far as discovery knows; \
         the pod gets no annotation: compare `muster-agent discover` with the device plugin's list"
    );
    Finding::new("device-unknown", format!("{pod}: {id}"), message)
}

fn unknown(held: &[Held], meta: &PodMeta, inventory: &Inventory, findings: &mut Vec<Finding>) {
    if !inventory.settled {
        return;
    }
    let ids: BTreeSet<(Vendor, u32)> = held.iter().map(|held| (held.vendor, held.id)).collect();
    for (vendor, id) in ids {
        if inventory.device(vendor, id).is_none() {
            findings.push(device_unknown(&meta.pod, &id.to_string()));
        }
    }
}

fn held_twice(all: &[PodDevices], pods: &PodMap, findings: &mut Vec<Finding>) {
    let mut holders: BTreeMap<(Vendor, u32), Vec<(&PodRef, bool)>> = BTreeMap::new();
    let lives = |pod: &PodRef| {
        let key = (pod.namespace.clone(), pod.name.clone());
        pods.get(&key).is_some_and(|meta| !meta.deleting)
    };
    for PodDevices { pod, devices } in all.iter().filter(|pod| lives(&pod.pod)) {
        for held in devices {
            let of = holders.entry((held.vendor, held.id)).or_default();
            let whole = held.part.is_none();
            match of.iter_mut().find(|(known, _)| *known == pod) {
                Some((_, all)) => *all |= whole,
                None => of.push((pod, whole)),
            }
        }
    }
    for ((vendor, id), of) in holders {
        if of.len() < 2 || !of.iter().any(|(_, whole)| *whole) {
            continue;
        }
        let kind = match vendor {
            Vendor::Ascend => "npu",
            Vendor::Nvidia => "gpu",
        };
        let names: Vec<String> = of.iter().take(8).map(|(pod, _)| pod.to_string()).collect();
        let message = format!(
            "pods {} hold {kind} {id} at once; where devices are chosen by a scheduler, look at the annotations \
             {} and {} of these pods, and delete the pod that should not have it",
            names.join(" and "),
            names::ASCEND_REAL,
            names::ASCEND_KUBELET,
        );
        findings.push(Finding::new("device-held-twice", format!("{kind} {id}"), message));
    }
}

#[cfg(test)]
mod tests;
