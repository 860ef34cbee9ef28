//! Devices that pods share, as a part of what is known of the cluster: held before a pod is bound, counted until they are free.

use jiff::Timestamp;
use muster_scheduler::decisions::Decision;
use muster_scheduler::input::{BindRequest, Pod};
use muster_scheduler::reason::{Reason, Waiting};
use muster_scheduler::snapshot::Reserved;

use crate::cluster::Cluster;
use crate::cycle::group_of;
use crate::nomination::Nomination;
use crate::object::{Name, borrowed};
use crate::orders::{Bind, Outcome};
use crate::reservation::share::{self, Untold};
use crate::reservation::{self, APP, Make, Reservations, SharedDevice, Steps};
use crate::room::device_of;

/// What is said of pods that claim devices one by one: a cluster's claims are not read, and none would be written.
pub(crate) const UNCLAIMED: &str = "claims of devices (resourceClaims) are not given by this scheduler yet: ask for devices by \
     resource, huawei.com/Ascend910 or nvidia.com/gpu say, or let another scheduler place these pods";

// === impl Cluster ===

impl Cluster {
    /// Devices that pods share.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// What is to be done about shared devices now.
    pub fn share(&mut self, now: Timestamp) -> Steps {
        let mut reservations = std::mem::take(&mut self.reservations);
        let stands = |pod: &Name, uid: &str| {
            let known = self.pod(pod).filter(|known| known.metadata.uid == uid);
            let node = self.in_flight.node(pod, uid).and_then(|node| self.node(node));
            node.is_some() && known.is_some_and(|known| known.metadata.deletion_timestamp.is_none())
        };
        let requested = |spot: &SharedDevice| self.is_requested(spot);
        let is_idle = |pod: &Name, uid: &str| {
            let is_asked = |request: &BindRequest| {
                request.metadata.namespace == *pod.0 && request.spec.pod_name == *pod.1
            };
            self.in_flight.node(pod, uid).is_none()
                && !self.input.bind_requests.iter().any(is_asked)
        };
        let seen = reservations.look(&self.settings.reservation, now, stands, requested, is_idle);
        self.reservations = reservations;
        let mut steps = Steps {
            mark: seen.mark,
            release: seen.release,
            lost: seen.lost,
            clear: seen.clear,
            ..Steps::default()
        };
        for (pod, uid, why) in seen.ended {
            if self.in_flight.node(&pod, &uid).is_none() {
                continue;
            }
            match why {
                Some(why) => {
                    self.in_flight.give_up(&pod, &why, &self.settings.timeouts, now);
                    steps.given_up.push((pod, why));
                }
                None => self.in_flight.end(&pod),
            }
        }
        for (spot, pod) in seen.make {
            match self.make(&spot, pod) {
                Some(make) => steps.make.push(make),
                None => self.reservations.unmake(&spot),
            }
        }
        for (pod, devices) in seen.ready {
            match self.tell(&pod, &devices) {
                Ok(bind) => steps.binds.push(bind),
                Err(why) => {
                    self.reservations.forget(&pod);
                    self.in_flight.give_up(&pod, &why, &self.settings.timeouts, now);
                    steps.given_up.push((pod, why));
                }
            }
        }
        steps
    }

    /// A reservation pod, as it is to be made.
    fn make(&self, spot: &SharedDevice, pod: Option<Name>) -> Option<Make> {
        let resource = device_of(self.node(&spot.node)?)?.to_owned();
        let known = pod.and_then(|pod| self.pod(&pod));
        let tolerations = known.map(|pod| pod.spec.tolerations.clone()).unwrap_or_default();
        let pod = reservation::pod_of(spot, &self.settings.reservation);
        Some(Make { spot: spot.clone(), pod, resource, tolerations })
    }

    /// The binding of a pod whose devices are known, or why there is none.
    fn tell(&mut self, pod: &Name, devices: &[(Box<str>, String)]) -> Result<Bind, String> {
        let unknown = || "it cannot be told its devices any more".to_owned();
        let mut bind = self.in_flight.of(pod).ok_or_else(unknown)?.clone();
        let closed = self.closed();
        let is_closed = |group: &str| closed.contains(&(bind.node.as_str(), group));
        if let Some((_, device)) = devices.iter().find(|(group, _)| is_closed(group)) {
            return Err(format!(
                "device {device} of {}, which it was to share, is faulty",
                bind.node
            ));
        }
        let parts: Vec<(&str, &str)> =
            devices.iter().map(|(group, device)| (&**group, device.as_str())).collect();
        let known = self.pod(pod).ok_or_else(unknown)?;
        let share = share::share(known, self.node(&bind.node), &parts).map_err(|_| unknown())?;
        bind.annotations.extend(share.annotations.clone());
        bind.share = Some(Box::new(share));
        self.in_flight.begin(bind.clone());
        Ok(bind)
    }

    /// Holds back a binding until all devices that the pod has a part of are held.
    pub(crate) fn hold_for(&mut self, bind: Bind, now: Timestamp) -> Option<Bind> {
        if bind.gpu_groups.is_empty() {
            return Some(bind);
        }
        let spots =
            bind.gpu_groups.iter().map(|group| SharedDevice::new(&bind.node, group)).collect();
        self.reservations.wait(&bind.pod, &bind.uid, spots, now);
        None
    }

    /// Notes a pod that is a reservation, or that shares devices. Whether it is a reservation.
    pub(crate) fn put_reservation(&mut self, pod: &mut Pod, name: &Name) -> bool {
        let app = &self.settings.config.params.resource_reservation_app_label;
        match reservation::spot_of(pod, &self.settings.reservation, app) {
            Some(spot) => {
                self.reservations.put(pod, spot);
                true
            }
            None => {
                // Only a reservation holds a device for others. What calls itself one holds it for itself.
                if pod.metadata.labels.get(APP) == Some(app) {
                    pod.metadata.labels.remove(APP);
                }
                let is_in_flight = self.in_flight.node(name, &pod.metadata.uid).is_some();
                let ours = pod.spec.scheduler_name == self.settings.config.params.scheduler_name;
                self.reservations.see(pod, is_in_flight, ours);
                false
            }
        }
    }

    /// Whether a binding that somebody else wrote, and that may still come, has a part of this device.
    fn is_requested(&self, spot: &SharedDevice) -> bool {
        let mut live = self.input.bind_requests.iter().filter(|request| !request.is_failed());
        live.any(|request| {
            *request.spec.selected_node == *spot.node
                && request.spec.selected_gpu_groups.iter().any(|group| **group == *spot.group)
        })
    }

    /// Shared devices that are faulty, by node: who has a part of one is judged by its policy, and nobody else gets one.
    fn closed(&self) -> Vec<(&str, &str)> {
        let spots =
            self.faults.hits().flat_map(|(node, pods)| self.reservations.spots_of(node, pods));
        spots.map(|(spot, _)| (&*spot.node, &*spot.group)).collect()
    }

    /// To a cycle a reservation for nobody is a pod like others that is leaving, and one that may come into being is there.
    pub(crate) fn reserved(&self) -> Reserved<'_> {
        let unused = self.reservations.lone().filter(|(spot, _)| !self.is_requested(spot));
        let coming = self.reservations.phantoms().filter_map(|spot| self.phantom(spot));
        Reserved {
            unused: unused.map(|(_, pod)| borrowed(pod)).collect(),
            coming: coming.collect(),
            closed: self.closed(),
        }
    }

    fn phantom(&self, spot: &SharedDevice) -> Option<Pod> {
        let device = device_of(self.node(&spot.node)?)?;
        let name = reservation::pod_of(spot, &self.settings.reservation);
        let pod = serde_json::json!({
            "metadata": {"namespace": name.0, "name": name.1},
            "spec": {"nodeName": spot.node, "containers": [{"name": "device",
                "resources": {"requests": {device: "1"}}}]},
            "status": {"phase": "Pending"}});
        serde_json::from_value(pod).ok()
    }

    /// Whether a node of a nomination has devices that are held for nobody, and are soon free.
    pub(crate) fn is_held_back(&self, nomination: &Nomination) -> bool {
        let on =
            |spot: &SharedDevice| nomination.places.values().any(|place| *place.node == *spot.node);
        self.reservations.lone().any(|(spot, _)| on(spot)) || self.reservations.phantoms().any(on)
    }

    /// Groups whose pods rest, and why their bindings were given up.
    pub(crate) fn given_up(&self) -> Vec<(String, Waiting)> {
        let resting = self.in_flight.resting().filter_map(|(name, rest)| {
            let pod = self.pod(name).filter(|pod| pod.metadata.uid == rest.uid)?;
            let message = format!("pod {} was not bound: {}", name.1, rest.why);
            Some((group_of(pod)?, waiting(message)))
        });
        resting.collect()
    }

    /// An agent says which device a reservation pod has.
    pub fn found(&mut self, pod: &Name, uid: &str, device: &str) {
        self.reservations.found(pod, uid, device);
    }

    /// What came of making a reservation.
    pub fn made(&mut self, spot: &SharedDevice, outcome: &Outcome, now: Timestamp) {
        self.reservations.made(spot, outcome, now);
    }

    /// What came of writing down a reservation's device.
    pub fn marked(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        self.reservations.marked(pod, uid, outcome, now);
    }

    /// What came of taking labels off a pod.
    pub fn cleared(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        self.reservations.cleared(pod, uid, outcome, now);
    }

    /// What came of letting a reservation, or a pod that has lost its device, go.
    pub fn released(&mut self, pod: &Name, uid: &str, outcome: &Outcome, now: Timestamp) {
        self.reservations.released(pod, uid, outcome, now);
    }
}

/// Why a pod cannot be told its devices: those that it is to share, or those that it claims.
pub(crate) fn obstacle(pod: &Pod, decision: &Decision) -> Option<Waiting> {
    if !decision.claims.is_empty() || decision.extended_claim.is_some() {
        return Some(Waiting {
            reason: Reason::MissingDeviceClaim,
            ..waiting(UNCLAIMED.to_owned())
        });
    }
    if decision.gpu_groups.is_empty() {
        return None;
    }
    let name = &pod.metadata.name;
    let message = match share::map_of(pod).err()? {
        Untold::NoMap => format!(
            "pod {name} asks for a part of a device and lacks the annotation {}, which the coordinator's webhook adds: apply \
             deploy/coordinator/webhook-scheduler.yaml and create the pod anew",
            share::CONFIG_MAP
        ),
        Untold::NoContainer => format!(
            "pod {name}: the annotation gpu-fraction-container-name names no container of it: create it anew with one that is there"
        ),
    };
    Some(waiting(message))
}

fn waiting(message: String) -> Waiting {
    Waiting {
        reason: Reason::Other,
        message,
        pods: 0,
        placed: 0,
        needed: 0,
        nodes: Default::default(),
    }
}
