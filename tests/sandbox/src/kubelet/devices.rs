//! Which pod holds which device of a node. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use muster_objects::meta;
use muster_proto::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec};
use serde_json::Value;

use super::lifecycle::{list, text};
use crate::hardware::Device;

/// The devices of a node, as its device plugins registered them, and who holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// By resource name, in the plugin's order.
    registered: BTreeMap<String, Vec<Registered>>,
    held: Vec<Held>,
}

/// A device and how it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// The device as the plugin registered it.
    pub device: Device,
    /// Unhealthy devices stay with their holder and go to nobody else.
    pub healthy: bool,
}

/// What one container holds of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// `metadata.uid` of the pod.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// The resource's name.
    pub resource: String,
    /// The devices' ids, lowest first.
    pub ids: Vec<String>,
}

/// Why a pod got no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Allocate failed due to requested number of devices unavailable for {resource}. \
     Requested: {requested}, Available: {available}, which is unexpected"
)]
pub struct Shortage {
    /// The resource's name.
    pub resource: String,
    /// How many a container wants.
    pub requested: usize,
    /// How many it could have.
    pub available: usize,
}

// === impl Devices ===

impl Devices {
    /// Registers the devices of one resource, all healthy.
    pub fn register(&mut self, resource: &str, devices: impl IntoIterator<Item = Device>) {
        let devices = devices.into_iter().map(|device| Registered { device, healthy: true });
        self.registered.insert(resource.to_owned(), devices.collect());
    }

    /// The resources and their devices.
    pub fn registered(&self) -> &BTreeMap<String, Vec<Registered>> {
        &self.registered
    }

    /// Who holds what.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// What the containers of one pod hold.
    pub fn held_by<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = &'a Held> {
        self.held.iter().filter(move |held| held.pod == pod)
    }

    /// A device by its id.
    pub fn find(&self, resource: &str, id: &str) -> Option<&Registered> {
        self.registered.get(resource)?.iter().find(|r| r.device.id == id)
    }

    /// Marks a device; false when there is none of this id.
    pub fn set_health(&mut self, id: &str, healthy: bool) -> bool {
        let mut found = false;
        for registered in self.registered.values_mut().flatten() {
            if registered.device.id == id {
                registered.healthy = healthy;
                found = true;
            }
        }
        found
    }

    /// All and healthy devices of each resource.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.registered.iter().map(|(resource, devices)| {
            let healthy = devices.iter().filter(|r| r.healthy).count();
            (resource.as_str(), devices.len(), healthy)
        })
    }

    /// Gives each container of the pod its devices, or none of them any. Asking again for a pod that
    /// holds devices changes nothing.
    ///
    /// What a plain init container holds goes on to the main containers, as it ends before they start.
    pub fn allocate(&mut self, pod: &Value) -> Result<(), Shortage> {
        let uid = meta::uid(pod);
        if self.held_by(uid).next().is_some() {
            return Ok(());
        }
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let mut given = Vec::new();
        let mut reusable: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let init = list(spec, "initContainers").iter().map(|c| (c, true));
        let main = list(spec, "containers").iter().map(|c| (c, false));
        for (container, is_init) in init.chain(main) {
            let plain_init = is_init && text(container, "restartPolicy") != "Always";
            for resource in self.registered.keys() {
                let wanted = requested(container, resource);
                if wanted == 0 {
                    continue;
                }
                let again = reusable.entry(resource).or_default();
                let ids = self.choose(resource, wanted, again, &given)?;
                for id in &ids {
                    match plain_init {
                        true => again.insert(id.clone()),
                        false => again.remove(id),
                    };
                }
                given.push(Held {
                    pod: uid.to_owned(),
                    container: text(container, "name").to_owned(),
                    resource: resource.clone(),
                    ids,
                });
            }
        }
        self.held.append(&mut given);
        Ok(())
    }

    /// Takes over what a checkpoint says, except for resources that are gone.
    pub fn restore(&mut self, held: impl IntoIterator<Item = Held>) {
        self.held = held
            .into_iter()
            .filter_map(|mut held| {
                let all = self.registered.get(&held.resource)?;
                held.ids.sort_by_key(|id| all.iter().position(|r| r.device.id == *id));
                Some(held)
            })
            .collect();
    }

    /// Takes back what a pod held; whether it held any.
    pub fn free(&mut self, pod: &str) -> bool {
        let before = self.held.len();
        self.held.retain(|held| held.pod != pod);
        before != self.held.len()
    }

    /// Drops the holdings of all pods but these.
    pub fn keep_only(&mut self, pods: impl Fn(&str) -> bool) {
        self.held.retain(|held| pods(&held.pod));
    }

    /// What the device plugin answers for these ids: the environment and the device files.
    pub fn answer(&self, resource: &str, ids: &[String]) -> ContainerAllocateResponse {
        let found: Vec<&Device> =
            ids.iter().filter_map(|id| self.find(resource, id)).map(|r| &r.device).collect();
        let mut envs = BTreeMap::new();
        for device in &found {
            let value: &mut String = envs.entry(device.visible_env.to_owned()).or_default();
            if !value.is_empty() {
                value.push(',');
            }
            value.push_str(&device.visible_as);
        }
        let devices = found
            .iter()
            .map(|device| DeviceSpec {
                container_path: device.path.clone(),
                host_path: device.path.clone(),
                permissions: "rw".into(),
            })
            .collect();
        ContainerAllocateResponse { envs, devices, ..Default::default() }
    }

    fn choose(
        &self,
        resource: &str,
        wanted: usize,
        again: &BTreeSet<String>,
        given: &[Held],
    ) -> Result<Vec<String>, Shortage> {
        let all = self.registered.get(resource).map(Vec::as_slice).unwrap_or_default();
        let taken: BTreeSet<&str> = self
            .held
            .iter()
            .chain(given)
            .filter(|held| held.resource == resource)
            .flat_map(|held| held.ids.iter().map(String::as_str))
            .collect();
        let reused = all.iter().filter(|r| again.contains(&r.device.id));
        let free = all.iter().filter(|r| r.healthy && !taken.contains(r.device.id.as_str()));
        let mut ids: Vec<&Registered> = reused.chain(free).take(wanted).collect();
        if ids.len() < wanted {
            let available =
                all.iter().filter(|r| r.healthy && !taken.contains(r.device.id.as_str())).count();
            return Err(Shortage { resource: resource.to_owned(), requested: wanted, available });
        }
        let place = |r: &&Registered| all.iter().position(|other| other.device.id == r.device.id);
        ids.sort_by_key(place);
        Ok(ids.into_iter().map(|r| r.device.id.clone()).collect())
    }
}

/// How many of a resource a container asks for; extended resources have equal limit and request.
fn requested(container: &Value, resource: &str) -> usize {
    let amount = |field: &str| container.get("resources")?.get(field)?.get(resource);
    let amount = amount("limits").or_else(|| amount("requests"));
    match amount {
        Some(Value::String(count)) => count.trim().parse().unwrap_or(0),
        Some(Value::Number(count)) => {
            count.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NPU: &str = "huawei.com/Ascend910";

    fn devices() -> Devices {
        let mut devices = Devices::default();
        devices.register(NPU, crate::hardware::Profile::Ascend910b8.devices(0));
        devices
    }

    fn pod(uid: &str, init: &[(&str, u32, bool)], main: &[(&str, u32)]) -> Value {
        let limits = |n: u32| json!({ "limits": { NPU: n.to_string() } });
        let init: Vec<Value> = init
            .iter()
            .map(|(name, n, sidecar)| {
                let mut c = json!({ "name": name, "resources": limits(*n) });
                if *sidecar {
                    c["restartPolicy"] = "Always".into();
                }
                c
            })
            .collect();
        let main: Vec<Value> =
            main.iter().map(|(name, n)| json!({ "name": name, "resources": limits(*n) })).collect();
        json!({ "metadata": { "uid": uid }, "spec": { "initContainers": init, "containers": main } })
    }

    fn ids(devices: &Devices, uid: &str) -> Vec<(String, Vec<u32>)> {
        let number = |id: &String| id.rsplit('-').next().unwrap().parse().unwrap();
        devices
            .held_by(uid)
            .map(|h| (h.container.clone(), h.ids.iter().map(number).collect()))
            .collect()
    }

    #[test]
    fn the_lowest_free_ids_are_given_and_come_back() {
        let mut devices = devices();
        devices.allocate(&pod("a", &[], &[("x", 2), ("y", 1)])).unwrap();
        devices.allocate(&pod("b", &[], &[("x", 2)])).unwrap();
        assert_eq!(ids(&devices, "a"), [("x".into(), vec![0, 1]), ("y".into(), vec![2])]);
        assert!(devices.free("a"));
        devices.allocate(&pod("c", &[], &[("x", 4)])).unwrap();
        assert_eq!(ids(&devices, "c"), [("x".into(), vec![0, 1, 2, 5])]);
        assert_eq!(ids(&devices, "b"), [("x".into(), vec![3, 4])]);
    }

    #[test]
    fn a_pod_gets_all_or_nothing() {
        let mut devices = devices();
        let shortage = devices.allocate(&pod("a", &[], &[("x", 6), ("y", 3)])).unwrap_err();
        assert_eq!((shortage.requested, shortage.available), (3, 2));
        assert!(devices.held().is_empty());
    }

    #[test]
    fn a_plain_init_container_hands_its_devices_on_and_a_sidecar_does_not() {
        let mut devices = devices();
        devices.allocate(&pod("a", &[("i", 4, false), ("s", 1, true)], &[("x", 6)])).unwrap();
        let held = ids(&devices, "a");
        assert_eq!(held[0], ("i".into(), vec![0, 1, 2, 3]));
        assert_eq!(held[1], ("s".into(), vec![0]));
        assert_eq!(held[2], ("x".into(), vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn an_unhealthy_device_goes_to_nobody_and_is_not_allocatable() {
        let mut devices = devices();
        assert!(devices.set_health("Ascend910-1", false));
        assert!(!devices.set_health("Ascend910-99", false));
        assert_eq!(devices.counts().collect::<Vec<_>>(), [(NPU, 8, 7)]);
        devices.allocate(&pod("a", &[], &[("x", 2)])).unwrap();
        assert_eq!(ids(&devices, "a"), [("x".into(), vec![0, 2])]);
        assert!(devices.allocate(&pod("b", &[], &[("x", 6)])).is_err());
    }

    #[test]
    fn the_plugins_answer_names_the_device_files_and_the_visible_devices() {
        let devices = devices();
        let answer = devices.answer(NPU, &["Ascend910-0".into(), "Ascend910-3".into()]);
        assert_eq!(answer.envs["ASCEND_VISIBLE_DEVICES"], "0,3");
        assert_eq!(answer.devices[1].host_path, "/dev/davinci3");
    }
}
