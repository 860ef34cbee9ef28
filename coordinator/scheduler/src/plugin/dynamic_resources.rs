//! `dynamicresources`: devices that pods claim one by one.
//!
//! A claim that has its devices keeps its pods to nodes that can use them. One that has none gets them on the node that is
//! looked at: the first that match, are free, and are right together. Who has what is read from the pods on the node,
//! so that undoing a placement gives its devices back. Devices of pods that leave are promised, not given.

mod search;

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use crate::{
    framework::{DevicePlacement, Plugin, Point, Scope, View},
    reason::{NodeRefusal, Reason, Refusal},
    snapshot::{
        ClaimId, ClaimNeed, Claimed, ClassId, DeviceId, Granted, NodeId, Reach, Status, TaskId,
    },
};

use self::search::{Matches, Search};

/// Devices that pods claim one by one.
#[derive(Default)]
pub struct DynamicResources {
    /// Devices of claims that no pod on a node uses: nobody else can have them.
    held: BTreeSet<DeviceId>,
    /// Whether devices can be used from several nodes, so that pods elsewhere matter.
    far: bool,
    /// Pods with claims.
    users: Vec<TaskId>,
    matches: RefCell<Matches>,
}

/// Devices that somebody else has.
#[derive(Default)]
struct Taken {
    busy: BTreeSet<DeviceId>,
    /// Until a pod has left.
    leaving: BTreeSet<DeviceId>,
}

// === impl DynamicResources ===

impl DynamicResources {
    /// What a claim has now: what its pods with a place have, or what it had before unless all of them leave.
    fn current(view: View<'_>, claim: ClaimId) -> Option<Arc<[Granted]>> {
        let spec = &view.snapshot.devices.claims[claim];
        let mut leaves = false;
        for user in &spec.users {
            let state = &view.state.tasks[*user];
            if state.status.is_active() {
                let mut has = state.claims.iter().flat_map(|claims| claims.iter());
                if let Some(has) = has.find(|it| it.claim == claim) {
                    return Some(has.devices.clone());
                }
            }
            leaves |= matches!(state.status, Status::Releasing | Status::StuckInReleasing);
        }
        spec.given.as_ref().filter(|_| spec.fixed || !leaves).map(|given| given.devices.clone())
    }

    /// Whether a node can use the devices that a claim has.
    fn reaches(view: View<'_>, claim: ClaimId, devices: &[Granted], node: NodeId) -> bool {
        let spec = &view.snapshot.nodes[node];
        let all = &view.snapshot.devices;
        let selector = all.claims[claim]
            .given
            .as_ref()
            .filter(|given| given.devices.as_ref() == devices)
            .and_then(|given| given.allocation.node_selector.as_ref());
        selector.is_none_or(|selector| selector.matches(&spec.name, &spec.labels))
            && devices.iter().all(|granted| match &all.all[granted.device].reach {
                Reach::Node(at) => *at == Some(node),
                Reach::Nodes(selector) => selector.matches(&spec.name, &spec.labels),
                Reach::All => true,
            })
    }

    /// Devices that others than a pod have, as far as a node can use them.
    fn taken(&self, view: View<'_>, task: TaskId, node: NodeId) -> Taken {
        let mut taken = Taken { busy: self.held.clone(), leaving: BTreeSet::new() };
        let mut note = |claims: &[Claimed], leaves: bool| {
            let used = claims.iter().flat_map(|it| it.devices.iter()).filter(|it| !it.admin);
            if leaves { &mut taken.leaving } else { &mut taken.busy }
                .extend(used.map(|it| it.device));
        };
        for pod in &view.state.nodes[node].pods {
            if let Some(claims) = &pod.claims {
                note(claims, pod.task == task || pod.status == Status::Releasing);
            }
        }
        if self.far {
            for user in self.users.iter().filter(|user| **user != task) {
                let state = &view.state.tasks[*user];
                if let Some(claims) = state.claims.as_ref().filter(|_| state.status.is_used()) {
                    note(claims, state.status == Status::Releasing);
                }
            }
        }
        taken
    }

    /// Devices for all claims of a pod on a node.
    fn grant(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Result<DevicePlacement, NodeRefusal> {
        let devices = &view.snapshot.devices;
        let mut claims: Vec<Claimed> = Vec::new();
        let mut open: Vec<ClaimId> = Vec::new();
        for claim in &view.snapshot.tasks[task].claims {
            match Self::current(view, claim.claim) {
                Some(has) if Self::reaches(view, claim.claim, &has, node) => {
                    claims.push(Claimed { claim: claim.claim, devices: has });
                }
                Some(_) => return Err(NodeRefusal::ClaimElsewhere),
                None => open.push(claim.claim),
            }
        }
        if open.is_empty() {
            return Ok(DevicePlacement { claims: claims.into(), later: false });
        }
        let taken = self.taken(view, task, node);
        // A pod that was sent away from here and comes back gets what it had.
        let before = view.state.nodes[node].find(task).and_then(|pod| pod.claims.clone());
        if let Some(before) = before {
            let has = |claim: &ClaimId| before.iter().any(|it| it.claim == *claim);
            let mut all = before.iter().flat_map(|it| it.devices.iter());
            if open.iter().all(has) && all.all(|it| it.admin || !taken.busy.contains(&it.device)) {
                return Ok(DevicePlacement { claims: before, later: false });
            }
        }
        let search = |taken: &BTreeSet<DeviceId>| {
            let mut matches = self.matches.borrow_mut();
            Search::new(devices, node, &view.snapshot.nodes[node], taken, &mut matches).run(&open)
        };
        let everybody: BTreeSet<DeviceId> = taken.busy.union(&taken.leaving).copied().collect();
        let (found, later) = match search(&everybody) {
            Err(_) if !taken.leaving.is_empty() => (search(&taken.busy)?, true),
            found => (found?, false),
        };
        claims.extend(found);
        Ok(DevicePlacement { claims: claims.into(), later })
    }
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "dynamicresources"
    }

    fn points(&self) -> &'static [Point] {
        &[
            Point::PrePredicate,
            Point::VictimInvariantPrePredicate,
            Point::Predicate,
            Point::DevicePlacement,
        ]
    }

    fn open(&mut self, view: View<'_>) {
        let snapshot = view.snapshot;
        let tasks = snapshot.tasks.entries().filter(|(_, task)| !task.claims.is_empty());
        self.users = tasks.map(|(id, _)| id).collect();
        self.far = snapshot.devices.all.iter().any(|it| !matches!(it.reach, Reach::Node(_)));
        for claim in snapshot.devices.claims.iter() {
            let Some(given) = &claim.given else { continue };
            let used = claim.users.iter().any(|user| {
                let task = &snapshot.tasks[*user];
                task.status.is_used() && task.node.is_some()
            });
            if !used || claim.fixed {
                let real = given.devices.iter().filter(|it| !it.admin);
                self.held.extend(real.map(|it| it.device));
            }
        }
    }

    fn pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        self.victim_invariant_pre_predicate(view, task)
    }

    fn victim_invariant_pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        let spec = &view.snapshot.tasks[task];
        let refuse = |message: String| Err(Refusal::new(Reason::MissingDeviceClaim, message));
        let wrong = &view.snapshot.classes[spec.class].constraints.bad_device_claims;
        if !wrong.is_empty() {
            return refuse(wrong.join(", "));
        }
        for claim in spec.claims.iter().filter(|claim| claim.named) {
            let claim = &view.snapshot.devices.claims[claim.claim];
            let queue = spec.job.map(|job| view.snapshot.jobs[job].queue_name.as_str());
            if let Some(queue) =
                queue.filter(|queue| claim.gpus > 0 && claim.queue.as_deref() != Some(*queue))
            {
                return refuse(format!(
                    "claim {} of graphics devices is not of queue {queue}: label it kai.scheduler/queue={queue}",
                    claim.key
                ));
            }
        }
        Ok(())
    }

    fn predicate_scope(&self, view: View<'_>, class: ClassId) -> Scope {
        let needs = &view.snapshot.classes[class].constraints.device_claims;
        let own = needs.iter().all(|need| matches!(need, ClaimNeed::Own(_)));
        match (needs.is_empty(), own && !self.far) {
            (true, _) => Scope::Static,
            (_, true) => Scope::Node,
            (_, false) => Scope::Session,
        }
    }

    fn predicate(&self, view: View<'_>, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        if view.snapshot.tasks[task].claims.is_empty() {
            return Ok(());
        }
        self.grant(view, task, node).map(|_| ())
    }

    fn device_placement(
        &self,
        view: View<'_>,
        task: TaskId,
        node: NodeId,
    ) -> Option<DevicePlacement> {
        self.grant(view, task, node).ok()
    }
}
