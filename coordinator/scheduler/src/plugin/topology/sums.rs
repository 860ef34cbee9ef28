//! Running sums of what domains have left, and of how many pods of a kind they have room for.

use std::rc::Rc;

use crate::{
    framework::View,
    snapshot::{GPU, Id, NodeId, PODS, TopologyId, Vector, at},
};

/// How many kinds of pods are remembered.
const KINDS: usize = 16;

/// Running sums of one topology.
pub(super) struct Sums {
    clock: usize,
    free: Vec<Vector>,
    /// What each node had when it was last counted.
    nodes: Vec<Vector>,
    kinds: Vec<Kind>,
    /// Nodes of each domain, ready to be handed out.
    sets: Vec<Rc<[NodeId]>>,
}

/// How many pods of a kind nodes and domains have room for.
struct Kind {
    most: Vector,
    wanted: usize,
    clock: usize,
    nodes: Vec<i64>,
    domains: Vec<i64>,
}

// === impl Sums ===

impl Sums {
    pub(super) fn new(view: View<'_>, id: TopologyId) -> Self {
        let topology = &view.snapshot.topologies[id];
        let zero = view.snapshot.dimensions.zero();
        let mut sums = Self {
            clock: view.state.clock(),
            free: vec![zero.clone(); topology.domains.len()],
            nodes: vec![zero; view.snapshot.nodes.len()],
            kinds: Vec::new(),
            sets: topology.domains.iter().map(|domain| Rc::from(domain.nodes.as_slice())).collect(),
        };
        for node in view.snapshot.nodes.ids() {
            sums.look(view, id, node);
        }
        sums
    }

    /// Brings sums up to date.
    pub(super) fn refresh(&mut self, view: View<'_>, id: TopologyId) {
        let from = self.clock;
        self.clock = view.state.clock();
        for node in view.state.to_look_at(from) {
            self.look(view, id, node);
        }
    }

    fn look(&mut self, view: View<'_>, id: TopologyId, node: NodeId) {
        let Some(domain) = view.snapshot.nodes[node].domains.get(id.row()).copied().flatten()
        else {
            return;
        };
        let state = &view.state.nodes[node];
        let Some(before) = self.nodes.get_mut(node.row()) else { return };
        for i in 0..before.len() {
            let now = state.free(i);
            let change = now - at(before, i);
            if change == 0.0 {
                continue;
            }
            if let Some(place) = before.get_mut(i) {
                *place = now;
            }
            for above in up(view, id, domain) {
                if let Some(sum) = self.free.get_mut(above).and_then(|sum| sum.get_mut(i)) {
                    *sum += change;
                }
            }
        }
    }

    /// Nodes of a domain.
    pub(super) fn nodes(&self, domain: usize) -> Rc<[NodeId]> {
        self.sets.get(domain).map_or_else(|| Rc::from([]), Rc::clone)
    }

    /// What a domain has left.
    pub(super) fn free(&self, domain: usize) -> &[f64] {
        self.free.get(domain).map_or(&[], |sum| sum)
    }

    /// The kind of pods that ask for so much, counted up to date.
    pub(super) fn kind(
        &mut self,
        view: View<'_>,
        id: TopologyId,
        most: &Vector,
        wanted: usize,
    ) -> usize {
        let known = self.kinds.iter().position(|kind| kind.most == *most && kind.wanted == wanted);
        let at = match known {
            Some(at) => at,
            None => {
                if self.kinds.len() >= KINDS {
                    self.kinds.remove(0);
                }
                self.kinds.push(Kind::new(view, id, most, wanted));
                self.kinds.len() - 1
            }
        };
        if let Some(kind) = self.kinds.get_mut(at) {
            kind.refresh(view, id);
        }
        at
    }

    /// How many pods of a kind a domain has room for.
    pub(super) fn count(&self, kind: usize, domain: usize) -> Option<i64> {
        self.kinds.get(kind)?.domains.get(domain).copied()
    }
}

// === impl Kind ===

impl Kind {
    fn new(view: View<'_>, id: TopologyId, most: &Vector, wanted: usize) -> Self {
        let mut kind = Self {
            most: most.clone(),
            wanted,
            clock: view.state.clock(),
            nodes: vec![0; view.snapshot.nodes.len()],
            domains: vec![0; view.snapshot.topologies[id].domains.len()],
        };
        for node in view.snapshot.nodes.ids() {
            kind.look(view, id, node);
        }
        kind
    }

    fn refresh(&mut self, view: View<'_>, id: TopologyId) {
        let from = self.clock;
        self.clock = view.state.clock();
        for node in view.state.to_look_at(from) {
            self.look(view, id, node);
        }
    }

    fn look(&mut self, view: View<'_>, id: TopologyId, node: NodeId) {
        let Some(domain) = view.snapshot.nodes[node].domains.get(id.row()).copied().flatten()
        else {
            return;
        };
        let now = self.room(view, node);
        let Some(before) = self.nodes.get_mut(node.row()) else { return };
        let change = now - *before;
        if change == 0 {
            return;
        }
        *before = now;
        for above in up(view, id, domain) {
            if let Some(sum) = self.domains.get_mut(above) {
                *sum += change;
            }
        }
    }

    /// How many pods of the kind a node has room for.
    fn room(&self, view: View<'_>, node: NodeId) -> i64 {
        let state = &view.state.nodes[node];
        let only_slot = self.most.iter().enumerate().all(|(i, asked)| i == PODS || *asked <= 0.0);
        if only_slot {
            return self.wanted as i64;
        }
        let gpu = at(&self.most, GPU);
        let rest = if gpu > 0.0 && gpu < 1.0 {
            state.shared_rest(&view.snapshot.nodes[node])
        } else {
            0.0
        };
        let mut least = i64::MAX;
        for (i, asked) in self.most.iter().enumerate().filter(|(_, asked)| **asked > 0.0) {
            let free = state.free(i) + if i == GPU { rest } else { 0.0 };
            if *asked > free {
                return 0;
            }
            least = least.min((free / asked) as i64);
        }
        if least == i64::MAX { self.wanted as i64 } else { least }
    }
}

/// A domain and all above it.
fn up(view: View<'_>, id: TopologyId, domain: usize) -> impl Iterator<Item = usize> {
    let domains = &view.snapshot.topologies[id].domains;
    std::iter::successors(Some(domain), move |at| domains.get(*at).and_then(|domain| domain.parent))
}
