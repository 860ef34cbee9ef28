//! Devices that a decision gives to claims, as a claim's status holds them.

use serde::Serialize;

use crate::{
    input::{
        AllocatedDevices, Allocation, DeviceConfig, DeviceResult, NodeSelector, NodeSelectorTerm,
        Operator, Requirement,
    },
    snapshot::{ClaimId, Granted, Node, NodeId, Reach, Snapshot, TaskId},
    state::State,
};

/// Devices that a claim of a pod gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimAllocation {
    /// The claim's name in the pod.
    pub name: String,
    /// The claim: `namespace/name`.
    pub claim: String,
    /// The devices; none if the claim had them before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
}

/// Devices that stand for a pod's extended resources, for a claim that is yet to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedAllocation {
    /// The devices that the claim gets.
    pub allocation: Allocation,
    /// What the claim asks for.
    pub device_requests: Vec<ExtendedRequest>,
    /// Which container gets what.
    pub container_mappings: Vec<ContainerMapping>,
}

/// What a claim for extended resources asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedRequest {
    /// Name of the request.
    pub name: String,
    /// The class of devices.
    pub device_class_name: String,
    /// How many devices are requested.
    pub count: u32,
}

/// Which request a container's resource is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerMapping {
    /// Name of the container.
    pub container_name: String,
    /// Name of the extended resource.
    pub resource_name: String,
    /// Name of the request within the claim.
    pub request_name: String,
}

/// What a pod's claims get with its place.
pub(super) fn of_task(
    snapshot: &Snapshot,
    state: &State,
    task: TaskId,
) -> (Vec<ClaimAllocation>, Option<Box<ExtendedAllocation>>) {
    let placed = &state.tasks[task];
    let (Some(has), Some(node)) = (&placed.claims, placed.node) else { return (Vec::new(), None) };
    let (mut claims, mut extended) = (Vec::new(), None);
    for claim in &snapshot.tasks[task].claims {
        let Some(granted) = has.iter().find(|it| it.claim == claim.claim) else { continue };
        let spec = &snapshot.devices.claims[claim.claim];
        let known = spec.given.as_ref().is_some_and(|given| given.devices == granted.devices);
        let made = || allocation(snapshot, claim.claim, node, &granted.devices);
        if !claim.name.is_empty() {
            let (name, claim) = (claim.name.clone(), spec.key.clone());
            claims.push(ClaimAllocation { name, claim, allocation: (!known).then(made) });
        } else if !known && !granted.devices.is_empty() {
            let made = extend(snapshot, claim.claim, made(), &granted.devices);
            extended = Some(Box::new(made));
        }
    }
    (claims, extended)
}

fn extend(
    snapshot: &Snapshot,
    claim: ClaimId,
    allocation: Allocation,
    granted: &[Granted],
) -> ExtendedAllocation {
    let devices = &snapshot.devices;
    let counts = |name: &str| granted.iter().any(|it| it.request == name);
    let requests = devices.shape(claim).into_iter().flat_map(|shape| &shape.requests);
    let device_requests = requests.filter(|request| counts(&request.name)).filter_map(|request| {
        let choice = request.choices.first()?;
        Some(ExtendedRequest {
            name: request.name.clone(),
            device_class_name: devices.filter(choice)?.class.clone(),
            count: choice.count?,
        })
    });
    let mappings = devices.claims[claim].mappings.iter();
    let mappings = mappings.filter(|[_, _, request]| counts(request)).cloned();
    ExtendedAllocation {
        device_requests: device_requests.collect(),
        container_mappings: mappings
            .map(|[container_name, resource_name, request_name]| ContainerMapping {
                container_name,
                resource_name,
                request_name,
            })
            .collect(),
        allocation,
    }
}

fn allocation(
    snapshot: &Snapshot,
    claim: ClaimId,
    node: NodeId,
    granted: &[Granted],
) -> Allocation {
    let all = &snapshot.devices.all;
    let result = |it: &Granted| DeviceResult {
        request: it.request.clone(),
        driver: all[it.device].driver.to_string(),
        pool: all[it.device].pool.to_string(),
        device: all[it.device].name.clone(),
        admin_access: it.admin.then_some(true),
    };
    Allocation {
        devices: AllocatedDevices {
            results: granted.iter().map(result).collect(),
            config: config(snapshot, claim, granted),
        },
        node_selector: selector(snapshot, &snapshot.nodes[node], granted),
    }
}

/// Settings of the classes that were chosen, then those of the claim for what was chosen.
fn config(snapshot: &Snapshot, claim: ClaimId, granted: &[Granted]) -> Vec<DeviceConfig> {
    let devices = &snapshot.devices;
    let chosen = |name: &str| {
        granted.iter().any(|it| {
            it.request == name || it.request.split_once('/').is_some_and(|(short, _)| short == name)
        })
    };
    let mut config = Vec::new();
    for request in devices.shape(claim).into_iter().flat_map(|shape| &shape.requests) {
        let full = |choice: &str| match choice {
            "" => request.name.clone(),
            choice => format!("{}/{choice}", request.name),
        };
        let choice = request.choices.iter().find(|choice| chosen(&full(&choice.name)));
        let filter = choice.and_then(|choice| devices.filter(choice));
        config.extend(filter.into_iter().flat_map(|filter| &filter.config).map(|it| {
            DeviceConfig { source: "FromClass".to_owned(), requests: Vec::new(), ..it.clone() }
        }));
    }
    let own = devices.claims[claim].config.iter();
    let own =
        own.filter(|it| it.requests.is_empty() || it.requests.iter().any(|name| chosen(name)));
    config.extend(own.map(|it| DeviceConfig { source: "FromClaim".to_owned(), ..it.clone() }));
    config
}

/// Nodes that can use all of the devices; none if all can.
fn selector(snapshot: &Snapshot, node: &Node, granted: &[Granted]) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for it in granted {
        match &snapshot.devices.all[it.device].reach {
            Reach::Node(_) => {
                term = NodeSelectorTerm {
                    match_expressions: Vec::new(),
                    match_fields: vec![Requirement {
                        key: "metadata.name".to_owned(),
                        operator: Operator::In,
                        values: vec![node.name.clone()],
                    }],
                };
                break;
            }
            Reach::Nodes(selector) => {
                // The term that the node meets: what is asked of it is asked of the others too.
                let met = selector.node_selector_terms.iter();
                let met = met.filter(|term| term.matches(&node.name, &node.labels)).take(1);
                for other in met {
                    term.match_expressions.extend(other.match_expressions.iter().cloned());
                    term.match_fields.extend(other.match_fields.iter().cloned());
                }
            }
            Reach::All => {}
        }
    }
    term.match_expressions.sort();
    term.match_expressions.dedup();
    term.match_fields.sort();
    term.match_fields.dedup();
    (term != NodeSelectorTerm::default()).then(|| NodeSelector { node_selector_terms: vec![term] })
}
