//! Which pod holds which device.
//!
//! Nobody knows it alone: pod-resources knows names but no uids, the checkpoint knows uids but no names, both know the
//! ids that the kubelet chose, and under a scheduler that chooses devices itself those ids are wrong. Per pod, the
//! first of these that fits is believed:
//!
//! ```text
//!   1  annotation huawei.com/AscendReal        as many as the kubelet gave
//!   2  the plugin's answer in the checkpoint   for this uid, as many as the kubelet gave
//!   3  annotation of the scheduler             as many, and kltDev names the kubelet's ids
//!   4  pod-resources, where the checkpoint does not know better
//!   5  the checkpoint's ids
//! ```
//!
//! A pod of which one device cannot be told is left out as a whole: a table with a hole is worse than none. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_proto::device::{Inventory, Vendor};
use muster_proto::pod::{Held, PodDevices, PodRef};
use muster_proto::podresources::v1::{ListPodResourcesResponse, PodResources};

use super::checkpoint::Checkpoint;
use super::device_id::{DeviceId, ResourceNames};
use crate::names;
use crate::pods::{PodMap, PodMeta};
use crate::problem::Finding;

/// What [`assign`] decides from.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
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
}

/// What it decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The pods that hold devices, by namespace and name.
    pub pods: Vec<PodDevices>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How many pods hold something that could not be told yet.
    pub unresolved: usize,
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
pub fn assign(known: Known<'_>) -> Assignment {
    let mut out = Assignment::default();
    let listed: BTreeMap<(&str, &str), &PodResources> = known
        .listed
        .into_iter()
        .flat_map(|listed| &listed.pod_resources)
        .map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod))
        .collect();
    for ((namespace, name), meta) in known.pods {
        let grants = grants(known, listed.get(&(namespace, name)).copied(), meta);
        if grants.is_empty() {
            continue;
        }
        match resolve(&grants, meta, known.inventory) {
            Ok(held) => {
                unknown(&held, meta, known.inventory, &mut out.findings);
                out.pods.push(PodDevices { pod: meta.pod.clone(), devices: held });
            }
            Err(id) => {
                out.unresolved += 1;
                // Before all sources were heard the inventory may simply not have it yet.
                if known.inventory.settled {
                    out.findings.push(device_unknown(&meta.pod, &id));
                }
            }
        }
    }
    held_twice(&out.pods, known.pods, &mut out.findings);
    out
}

fn grants(known: Known<'_>, listed: Option<&PodResources>, meta: &PodMeta) -> Vec<Grant> {
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
        complete || checkpoint.of(&meta.pod.uid).next().is_some()
    };
    if let Some(checkpoint) = known.checkpoint.filter(decides) {
        // What plain init containers held, main containers hold after them; the kubelet does not list them.
        let runs = |container: &str| {
            listed.is_none_or(|pod| pod.containers.iter().any(|known| known.name == container))
        };
        for entry in checkpoint.of(&meta.pod.uid).filter(|entry| runs(&entry.container)) {
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
    }
    by_place.into_values().filter(|grant| !grant.ids.is_empty()).collect()
}

/// The devices of a pod, sorted; or the id that means nothing.
fn resolve(grants: &[Grant], meta: &PodMeta, inventory: &Inventory) -> Result<Vec<Held>, String> {
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
    for (grant, devices) in npus.iter().zip(npus_of(&npus, meta, inventory)?) {
        hold(grant, devices);
    }
    for grant in gpus {
        hold(grant, grant.answered(inventory).map_or_else(|| grant.given(inventory), Ok)?);
    }
    Ok(held.into_iter().collect())
}

fn npus_of(
    grants: &[&Grant],
    meta: &PodMeta,
    inventory: &Inventory,
) -> Result<Vec<Devices>, String> {
    let given: BTreeSet<&String> = grants.iter().flat_map(|grant| &grant.ids).collect();
    let answered: Vec<Option<Devices>> =
        grants.iter().map(|grant| grant.answered(inventory)).collect();
    let annotated = |key: &str| -> Option<Devices> {
        let text = meta.annotations.get(key)?;
        let words: BTreeSet<&str> = text.split(',').map(str::trim).collect();
        let read: Option<Devices> =
            words.iter().map(|id| DeviceId::parse(Vendor::Ascend, id, inventory)).collect();
        read.filter(|devices| devices.len() == given.len())
    };
    if let Some(real) = annotated(names::ASCEND_REAL) {
        // The annotation knows the pod only; the plugin's answers tell which container has which.
        let all: Option<Vec<Devices>> = answered.iter().cloned().collect();
        let same = |all: &Vec<Devices>| {
            all.iter().flatten().collect::<BTreeSet<_>>().iter().copied().eq(&real)
        };
        return Ok(all.filter(same).unwrap_or_else(|| shared_out(real, grants)));
    }
    let all: Option<Vec<Devices>> = answered.iter().cloned().collect();
    if let Some(all) = all {
        return Ok(all);
    }
    let klt = meta.annotations.get(names::ASCEND_KUBELET);
    let confirmed = klt.is_some_and(|text| {
        let words: BTreeSet<&str> = text.split(',').map(str::trim).collect();
        words.into_iter().eq(given.iter().map(|id| id.as_str()))
    });
    let resources: BTreeSet<&str> = grants.iter().map(|grant| grant.resource.as_str()).collect();
    if confirmed
        && let Some(resource) = resources.first().filter(|_| resources.len() == 1)
        && let Some(chosen) = annotated(resource)
    {
        return Ok(shared_out(chosen, grants));
    }
    let each = grants.iter().zip(answered);
    each.map(|(grant, answer)| answer.map_or_else(|| grant.given(inventory), Ok)).collect()
}

/// Gives each container as many as the kubelet gave it, lowest first.
fn shared_out(devices: Devices, grants: &[&Grant]) -> Vec<Devices> {
    let mut left = devices.into_iter();
    grants.iter().map(|grant| left.by_ref().take(grant.ids.len()).collect()).collect()
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
