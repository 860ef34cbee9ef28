//! Claims of devices: what they ask for, what they have, which pods use them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    input::{self, Allocation, AllocationMode, DeviceSubRequest, Input, Pod, ResourceClaim},
    snapshot::{
        Choice, Claim, ClaimNeed, ClaimShape, Constraints, DeviceId, Devices, Given, Granted,
        Request, Rule, Table, Task, TaskClaim, TaskId,
    },
};

use super::Builder;

/// Devices that one claim can have, and pods that can use one, as the API allows.
const MOST_DEVICES: u32 = 32;
const MOST_USERS: usize = 256;
/// Label with the queue that a claim of graphics devices is for.
const QUEUE: &str = "kai.scheduler/queue";

/// Devices by driver, pool and name.
type Names = HashMap<(Arc<str>, Arc<str>, String), DeviceId>;

// === impl Builder ===

impl Builder<'_> {
    /// All claims, without their users.
    pub(super) fn claims(&mut self, devices: &mut Devices) {
        let input = self.input;
        let mut order: Vec<&ResourceClaim> = input.resource_claims.iter().collect();
        order.sort_by(|a, b| {
            (&a.metadata.namespace, &a.metadata.name)
                .cmp(&(&b.metadata.namespace, &b.metadata.name))
        });
        let mut names = Names::new();
        if !order.is_empty() {
            let named = devices
                .all
                .entries()
                .map(|(id, it)| ((it.driver.clone(), it.pool.clone(), it.name.clone()), id));
            names.extend(named);
        }
        let mut users: HashMap<(&str, &str), usize> = HashMap::new();
        for pod in input.pods.iter().filter(|_| !order.is_empty()) {
            for name in claim_names(pod) {
                *users.entry((pod.metadata.namespace.as_str(), name)).or_default() += 1;
            }
        }
        let reserved = order.iter().any(|claim| !claim.status.reserved_for.is_empty());
        let pods: HashSet<&str> = if reserved {
            input.pods.iter().map(|pod| pod.metadata.uid.as_str()).collect()
        } else {
            HashSet::new()
        };
        let on_their_way = promised(input);
        for object in order {
            let meta = &object.metadata;
            let name = (meta.namespace.as_str(), meta.name.as_str());
            let (shape, wrong) = match self.claim_shape(devices, object) {
                Ok(shape) => (shape, None),
                Err(why) => (ClaimShape::default(), Some(why)),
            };
            let allocation = object.status.allocation.as_ref().or_else(|| {
                on_their_way.get(&(meta.namespace.as_str(), meta.name.as_str())).copied()
            });
            let full = object.status.reserved_for.len() >= MOST_USERS;
            let fixed =
                object.status.reserved_for.iter().any(|user| !pods.contains(user.uid.as_str()));
            let shared = users.get(&name).copied().unwrap_or(0) > 1;
            let claim = Claim {
                key: format!("{}/{}", meta.namespace, meta.name),
                gpus: gpus(object),
                shape: self.shape_id(devices, shape),
                given: allocation.map(|allocation| Arc::new(given(allocation, &names))),
                fixed,
                users: Vec::new(),
                queue: meta.labels.get(QUEUE).map(str::to_owned),
                wrong: wrong.or_else(|| {
                    full.then(|| {
                        format!("{MOST_USERS} pods use it, and no more can: make another claim")
                    })
                }),
                config: object.spec.devices.config.clone(),
                mappings: Vec::new(),
            };
            self.shared_claims.push(shared);
            let key = claim.key.clone();
            let id = devices.claims.push(claim);
            devices.by_name.insert(key, id);
        }
    }

    fn claim_shape(
        &mut self,
        devices: &mut Devices,
        object: &ResourceClaim,
    ) -> Result<ClaimShape, String> {
        let mut shape = ClaimShape::default();
        let mut sum = 0_u32;
        for request in &object.spec.devices.requests {
            let exact = request.exact();
            let choices: Vec<&DeviceSubRequest> = match &exact {
                Some(exact) => vec![exact],
                None => request.first_available.iter().collect(),
            };
            let mut made = Vec::new();
            for choice in choices {
                let of = |why: String| format!("request {}: {why}", request.name);
                let filter = self
                    .filter(devices, &choice.device_class_name, &choice.selectors)
                    .map_err(of)?;
                let count = match choice.allocation_mode {
                    Some(AllocationMode::All) => None,
                    _ => Some(choice.count.unwrap_or(1).clamp(1, i64::from(u32::MAX)) as u32),
                };
                made.push(Choice {
                    name: choice.name.clone(),
                    filter,
                    count,
                    admin: choice.admin_access.unwrap_or(false),
                });
            }
            let least = made.iter().map(|choice| choice.count.unwrap_or(1)).min();
            let Some(least) = least else {
                let name = &request.name;
                return Err(format!(
                    "request {name} has neither `exactly` nor `firstAvailable`: write one"
                ));
            };
            sum = sum.saturating_add(least);
            shape.requests.push(Request {
                name: request.name.clone(),
                choices: made,
                extended: None,
            });
        }
        if sum > MOST_DEVICES {
            return Err(format!(
                "it asks for {sum} devices, and a claim can have {MOST_DEVICES}: make several"
            ));
        }
        for (at, constraint) in object.spec.devices.constraints.iter().enumerate() {
            let (attribute, distinct) =
                match (&constraint.match_attribute, &constraint.distinct_attribute) {
                    (Some(attribute), _) => (attribute, false),
                    (None, Some(attribute)) => (attribute, true),
                    (None, None) => {
                        return Err(format!(
                            "constraint {at} has neither `matchAttribute` nor `distinctAttribute`"
                        ));
                    }
                };
            let requests = constraint.requests.clone();
            shape.rules.push(Rule { requests, attribute: attribute.clone(), distinct });
        }
        Ok(shape)
    }

    fn shape_id(&mut self, devices: &mut Devices, shape: ClaimShape) -> u32 {
        if let Some(id) = self.claim_shapes.get(&shape) {
            return *id;
        }
        let id = devices.shapes.len() as u32;
        devices.shapes.push(shape.clone());
        self.claim_shapes.insert(shape, id);
        id
    }

    /// A pod's claims, the one that stands for its extended resources included.
    pub(super) fn task_claims(&mut self, devices: &mut Devices, pod: &Pod) -> Vec<TaskClaim> {
        let mut claims = Vec::new();
        for claim in &pod.spec.resource_claims {
            let key =
                claim_name(pod, claim).map(|name| format!("{}/{name}", pod.metadata.namespace));
            if let Some(id) = key.and_then(|key| devices.by_name.get(&key)) {
                let named = claim.resource_claim_name.is_some();
                claims.push(TaskClaim { name: claim.name.clone(), claim: *id, named });
            }
        }
        claims.extend(self.extended_claim(devices, pod));
        claims
    }

    /// The claim that stands for a pod's extended resources, if a class of devices serves any of them.
    fn extended_claim(&mut self, devices: &mut Devices, pod: &Pod) -> Option<TaskClaim> {
        if self.extended.is_empty() {
            return None;
        }
        let mut requests: Vec<Request> = Vec::new();
        let mut mappings = Vec::new();
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        for (at, container) in containers.enumerate() {
            let init = at >= pod.spec.containers.len() && container.restart_policy != "Always";
            for (of, (resource, amount)) in container.resources.requests.iter().enumerate() {
                let Some(dimension) = self.dimensions.find(resource) else { continue };
                let Some(filter) = self.extended.get(&dimension).copied() else { continue };
                let Some(count) = u32::try_from(amount.units()).ok().filter(|count| *count > 0)
                else {
                    continue;
                };
                let choice =
                    Choice { name: String::new(), filter, count: Some(count), admin: false };
                // What runs before the others can have devices that those get.
                let reused =
                    requests.iter().find(|known| init && known.choices.first() == Some(&choice));
                let name = match reused {
                    Some(known) => known.name.clone(),
                    None => format!("container-{at}-request-{of}"),
                };
                if reused.is_none() {
                    let choices = vec![choice];
                    requests.push(Request {
                        name: name.clone(),
                        choices,
                        extended: Some(dimension),
                    });
                }
                mappings.push([container.name.clone(), resource.to_owned(), name]);
            }
        }
        if requests.is_empty() {
            return None;
        }
        let shape = self.shape_id(devices, ClaimShape { requests, rules: Vec::new() });
        let made = pod.status.extended_resource_claim_status.as_ref();
        let known = made
            .and_then(|made| {
                devices
                    .by_name
                    .get(&format!("{}/{}", pod.metadata.namespace, made.resource_claim_name))
            })
            .and_then(|id| devices.claims[*id].given.clone());
        let claim = devices.claims.push(Claim {
            key: format!("{}/{} (extended resources)", pod.metadata.namespace, pod.metadata.name),
            shape,
            given: known,
            fixed: false,
            users: Vec::new(),
            gpus: 0,
            queue: None,
            wrong: None,
            config: Vec::new(),
            mappings,
        });
        self.shared_claims.push(false);
        Some(TaskClaim { name: String::new(), claim, named: false })
    }

    /// What pods with such claims ask of a place.
    pub(super) fn constrain_claims(
        &self,
        devices: &Devices,
        pod: &Pod,
        claims: &[TaskClaim],
        constraints: &mut Constraints,
    ) {
        for claim in claims {
            let spec = &devices.claims[claim.claim];
            let shared = self.shared_claims.get(claim.claim.0 as usize).copied().unwrap_or(false);
            let own = !shared && !claim.named && spec.given.is_none() && spec.wrong.is_none();
            let need =
                if own { ClaimNeed::Own(spec.shape) } else { ClaimNeed::This(claim.claim.0) };
            constraints.device_claims.push(need);
            if shared && spec.gpus > 0 {
                constraints.shared_gpus.push((claim.claim.0, spec.gpus));
            }
        }
        constraints.bad_device_claims = self.wrong_claims(devices, pod);
    }

    /// Claims of a pod that do not exist or that nobody can have.
    fn wrong_claims(&self, devices: &Devices, pod: &Pod) -> Vec<String> {
        let mut wrong = Vec::new();
        for claim in &pod.spec.resource_claims {
            let Some(name) = claim_name(pod, claim) else {
                if claim.resource_claim_template_name.is_some() {
                    wrong.push(format!("claim {} is not made from its template yet", claim.name));
                }
                continue;
            };
            let key = format!("{}/{name}", pod.metadata.namespace);
            match devices.by_name.get(&key) {
                None => wrong.push(format!("claim {name} does not exist: create it")),
                Some(id) => {
                    let why = devices.claims[*id].wrong.iter();
                    wrong.extend(why.map(|why| format!("claim {name}: {why}")));
                }
            }
        }
        wrong
    }

    /// Graphics devices that a pod's claims ask for.
    pub(super) fn claimed_gpus(&self, devices: &Devices, claims: &[TaskClaim]) -> i64 {
        claims.iter().map(|it| devices.claims[it.claim].gpus).fold(0, i64::saturating_add)
    }
}

/// Allocations of bind requests that are on their way, by claim.
fn promised(input: &Input) -> BTreeMap<(&str, &str), &Allocation> {
    let mut promised = BTreeMap::new();
    let live = input.bind_requests.iter().filter(|request| {
        !request.is_failed() && !request.spec.resource_claim_allocations.is_empty()
    });
    for request in live {
        let namespace = request.metadata.namespace.as_str();
        let of = |pod: &&Pod| {
            pod.metadata.namespace == namespace && pod.metadata.name == request.spec.pod_name
        };
        let Some(pod) = input.pods.iter().find(of) else { continue };
        for given in &request.spec.resource_claim_allocations {
            let claim = pod.spec.resource_claims.iter().find(|claim| claim.name == given.name);
            let name = claim.and_then(|claim| claim_name(pod, claim));
            if let (Some(name), Some(allocation)) = (name, &given.allocation) {
                promised.insert((namespace, name), allocation);
            }
        }
    }
    promised
}

/// Names of the claims of devices that a pod has, as far as they are known.
fn claim_names(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.resource_claims.iter().filter_map(|claim| claim_name(pod, claim))
}

/// The claim that a pod's claim is: by name, or made for it.
fn claim_name<'p>(pod: &'p Pod, claim: &'p input::PodClaim) -> Option<&'p str> {
    claim.resource_claim_name.as_deref().or_else(|| {
        let made = pod.status.resource_claim_statuses.iter().find(|made| made.name == claim.name);
        made.and_then(|made| made.resource_claim_name.as_deref())
    })
}

/// What a claim has, and which of it is known.
fn given(allocation: &Allocation, names: &Names) -> Given {
    let known = |result: &input::DeviceResult| {
        let key = (
            Arc::from(result.driver.as_str()),
            Arc::from(result.pool.as_str()),
            result.device.clone(),
        );
        let device = *names.get(&key)?;
        let admin = result.admin_access.unwrap_or(false);
        Some(Granted { request: result.request.clone(), device, admin })
    };
    let devices = allocation.devices.results.iter().filter_map(known).collect();
    Given { allocation: allocation.clone(), devices }
}

/// Graphics devices that a claim asks for, as quotas count them.
fn gpus(object: &ResourceClaim) -> i64 {
    let mut count: i64 = 0;
    for request in &object.spec.devices.requests {
        let Some(exactly) = &request.exactly else { continue };
        if exactly.device_class_name.to_lowercase().contains("gpu") {
            count = count.saturating_add(match exactly.allocation_mode {
                Some(AllocationMode::All) => 1,
                _ => exactly.count.unwrap_or(1).max(1),
            });
        }
    }
    count
}

/// Tells claims who uses them.
pub(super) fn tell_users(devices: &mut Devices, tasks: &Table<TaskId, Task>) {
    for (id, task) in tasks.entries() {
        for claim in &task.claims {
            if devices.claims.get(claim.claim).is_some() {
                devices.claims[claim.claim].users.push(id);
            }
        }
    }
}
