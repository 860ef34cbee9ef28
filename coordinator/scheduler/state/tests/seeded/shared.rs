//! Devices that pods share, in the world of the seeded runs: reservation pods, the kubelets that give them devices, and the agents
//! that tell of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_scheduler_state::object::name;
use muster_scheduler_state::reservation::{Annotate, DEVICE, GROUP, Make, Release};
use muster_scheduler_state::{Bind, Kind, Object, Outcome};
use serde_json::json;

use super::world::{Heard, Order, World};

const NAMESPACE: &str = "kai-resource-reservation";

/// A reservation pod as the API server knows it.
#[derive(Clone, Debug)]
pub struct Reserved {
    uid: String,
    pub node: String,
    group: String,
    /// What the kubelet gave it.
    device: String,
    marked: Option<String>,
    pub leaving: bool,
}

/// Which part of which devices a pod asks for, and has.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Hundredths of each.
    pub percent: u32,
    /// How many.
    pub count: u32,
    /// What it was told when it was bound.
    pub told: Vec<String>,
    pub groups: Vec<String>,
}

impl World {
    /// What is to be done about shared devices goes out.
    pub fn share(&mut self) {
        let steps = self.cluster.share(self.now);
        self.orders.extend(steps.make.into_iter().map(Order::Make));
        self.orders.extend(steps.mark.into_iter().map(Order::Annotate));
        self.orders.extend(steps.release.into_iter().map(Order::Release));
        self.orders.extend(steps.lost.into_iter().map(Order::Release));
        self.orders.extend(steps.clear.into_iter().map(Order::Clear));
        self.orders.extend(steps.binds.into_iter().map(Order::Bind));
    }

    /// Agents say which device each reservation has.
    pub fn agents_tell(&mut self) {
        let unmarked: Vec<_> = self
            .cluster
            .reservations()
            .unmarked()
            .map(|(_, pod, uid)| (pod.clone(), uid.to_owned()))
            .collect();
        for (pod, uid) in unmarked {
            if let Some(known) = self.reserved.get(&*pod.1).filter(|known| known.uid == uid) {
                let device = known.device.clone();
                self.cluster.found(&pod, &uid, &device);
            }
        }
    }

    pub fn make(&mut self, make: &Make) -> Outcome {
        if self.reserved.contains_key(&*make.pod.1) {
            return Outcome::Lost("409".to_owned());
        }
        self.made += 1;
        self.reservations += 1;
        let reserved = Reserved {
            uid: format!("reservation-{}", self.made),
            node: make.spot.node.to_string(),
            group: make.spot.group.to_string(),
            device: format!("GPU-{}", self.made),
            marked: None,
            leaving: false,
        };
        self.tell_reserved(&make.pod.1, &reserved);
        self.reserved.insert(make.pod.1.to_string(), reserved);
        Outcome::Done
    }

    pub fn mark(&mut self, mark: &Annotate) -> Outcome {
        let known = self.reserved.get_mut(&*mark.pod.1).filter(|known| known.uid == mark.uid);
        let Some(known) = known else { return Outcome::Lost("404".to_owned()) };
        assert_eq!(known.device, mark.device, "what is written down is what the kubelet gave");
        known.marked = Some(mark.device.clone());
        let known = known.clone();
        self.tell_reserved(&mark.pod.1, &known);
        Outcome::Done
    }

    pub fn release(&mut self, release: &Release) -> Outcome {
        if &*release.pod.0 != NAMESPACE {
            let known = self.pods.get_mut(&*release.pod.1).filter(|pod| pod.uid == release.uid);
            let Some(pod) = known else { return Outcome::Lost("404".to_owned()) };
            pod.leaving = true;
            let truth = pod.clone();
            self.tell(&release.pod.1, &truth);
            return Outcome::Done;
        }
        let known = self.reserved.get_mut(&*release.pod.1).filter(|known| known.uid == release.uid);
        let Some(known) = known else { return Outcome::Lost("404".to_owned()) };
        known.leaving = true;
        let known = known.clone();
        self.tell_reserved(&release.pod.1, &known);
        Outcome::Done
    }

    /// The first half of a binding: the pod has the labels of its devices, and no node.
    pub fn label(&mut self, bind: &Bind) -> Outcome {
        let known = self.pods.get_mut(&*bind.pod.1).filter(|pod| pod.uid == bind.uid);
        if let Some(pod) = known.filter(|pod| pod.node.is_none() && !pod.leaving) {
            if let Some(part) = &mut pod.part {
                part.groups = bind.gpu_groups.clone();
            }
            let truth = pod.clone();
            self.tell(&bind.pod.1, &truth);
        }
        Outcome::Failed("429".to_owned())
    }

    /// A pod without a node loses these labels.
    pub fn clear(&mut self, release: &Release) -> Outcome {
        let known = self.pods.get_mut(&*release.pod.1).filter(|pod| pod.uid == release.uid);
        let Some(pod) = known.filter(|pod| pod.node.is_none()) else {
            return Outcome::Lost("404, or it has a node".to_owned());
        };
        if let Some(part) = &mut pod.part {
            part.groups.clear();
        }
        let truth = pod.clone();
        self.tell(&release.pod.1, &truth);
        Outcome::Done
    }

    /// What a pod is told when it is bound.
    pub fn told(bind: &Bind, part: &mut Part) {
        let share = bind.share.as_ref().unwrap();
        part.told = share.devices.clone();
        part.groups = bind.gpu_groups.clone();
    }

    /// Somebody takes a reservation away.
    pub fn steal(&mut self) {
        let names: Vec<String> = self.reserved.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let at = self.dice(names.len() as u64) as usize;
        if let Some(known) = self.reserved.get_mut(&names[at]) {
            known.leaving = true;
            let known = known.clone();
            self.tell_reserved(&names[at], &known);
        }
    }

    /// Reservations that leave, or whose node is not there, are gone.
    pub fn let_reservations_go(&mut self) {
        let nodes = &self.nodes;
        let gone =
            self.reserved.iter().filter(|(_, one)| one.leaving || !nodes.contains(&one.node));
        for gone in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.reserved.remove(&gone);
            self.heard.push_back(Heard::Gone(Kind::Pod, name(NAMESPACE, &gone)));
        }
    }

    /// Devices of each node that reservations hold.
    pub fn held(&self) -> BTreeMap<&str, u32> {
        let mut held: BTreeMap<&str, u32> = BTreeMap::new();
        for one in self.reserved.values() {
            *held.entry(&one.node).or_default() += 1;
        }
        held
    }

    /// Nobody has more of a device than is left of it.
    pub fn check_parts(&self, when: &str) {
        let mut parts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for pod in self.pods.values() {
            let (Some(node), Some(part)) = (&pod.node, &pod.part) else { continue };
            for group in &part.groups {
                *parts.entry((node, group)).or_default() += part.percent;
            }
        }
        for ((node, group), percent) in parts {
            assert!(percent <= 100, "{when}: {percent} % of {group} on {node} are given");
        }
    }

    /// Every pod that shares has what it was told, and nothing is held for nobody.
    pub fn check_reservations(&self, when: &str) {
        let mut used = BTreeSet::new();
        for (name, pod) in &self.pods {
            let Some(part) = &pod.part else { continue };
            let Some(node) = &pod.node else {
                assert!(part.groups.is_empty(), "{when}: {name} waits, and says that it shares");
                continue;
            };
            assert_eq!(part.told.len(), part.count as usize, "{when}: {name}");
            for (group, device) in part.groups.iter().zip(&part.told) {
                let of = |one: &&Reserved| one.node == *node && one.group == *group;
                let all: Vec<&Reserved> = self.reserved.values().filter(of).collect();
                assert_eq!(all.len(), 1, "{when}: reservations of {group} on {node}, for {name}");
                assert_eq!(all[0].device, *device, "{when}: {name}");
                used.insert((node.clone(), group.clone()));
            }
        }
        for (name, one) in &self.reserved {
            let key = (one.node.clone(), one.group.clone());
            assert!(used.contains(&key), "{when}: {name} holds {} for nobody", one.group);
        }
    }

    pub fn all_reserved(&self) -> Vec<Object> {
        self.reserved.iter().map(|(pod, one)| reserved_object(pod, one, self.now)).collect()
    }

    fn tell_reserved(&mut self, pod: &str, one: &Reserved) {
        self.heard.push_back(Heard::Put(Box::new(reserved_object(pod, one, self.now))));
    }
}

fn reserved_object(pod: &str, one: &Reserved, now: Timestamp) -> Object {
    let mut pod = json!({"metadata": {"name": pod, "namespace": NAMESPACE, "uid": one.uid,
            "labels": {"app": NAMESPACE, GROUP: one.group}},
        "spec": {"nodeName": one.node, "containers": [{"name": "device",
            "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"}});
    if let Some(device) = &one.marked {
        pod["metadata"]["annotations"] = json!({DEVICE: device});
    }
    if one.leaving {
        pod["metadata"]["deletionTimestamp"] = now.to_string().into();
    }
    Object::Pod(Box::new(serde_json::from_value(pod).unwrap()))
}
