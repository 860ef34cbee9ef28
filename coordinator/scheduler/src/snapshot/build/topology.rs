//! Topologies: a node belongs to one if it has a label for every level.

use std::collections::HashMap;

use crate::snapshot::{Domain, Id, Node, NodeId, Table, Topology, TopologyId};

use super::Builder;

/// For each node its finest domain, by topology.
type Places = Vec<(NodeId, Vec<Option<usize>>)>;

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn topologies(
        &mut self,
        nodes: &Table<NodeId, Node>,
    ) -> (Table<TopologyId, Topology>, Places) {
        let mut objects: Vec<_> = self.input.topologies.iter().collect();
        objects.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        objects.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        let mut topologies: Table<TopologyId, Topology> = Table::default();
        let mut places: Vec<Vec<Option<usize>>> = vec![Vec::new(); nodes.len()];
        for object in objects {
            let levels: Vec<String> =
                object.spec.levels.iter().map(|level| level.node_label.clone()).collect();
            let mut topology =
                Topology { name: object.metadata.name.clone(), levels, domains: vec![root()] };
            // Only asked by name: its order decides nothing.
            let mut known = HashMap::new();
            for (id, node) in nodes.entries() {
                let place = topology.place(id, node, &mut known);
                if let Some(list) = places.get_mut(id.row()) {
                    list.push(place);
                }
            }
            let id = topologies.push(topology);
            self.topology_ids.insert(object.metadata.name.as_str(), id);
        }
        let places =
            places.into_iter().enumerate().map(|(row, list)| (NodeId::of(row), list)).collect();
        (topologies, places)
    }

    /// The label that a level's alias stands for.
    pub(super) fn level(&self, topology: &str, level: &str) -> String {
        self.input
            .topologies
            .iter()
            .filter(|object| object.metadata.name == topology)
            .flat_map(|object| &object.spec.levels)
            .find(|known| !known.alias.is_empty() && known.alias == level)
            .map_or_else(|| level.to_owned(), |known| known.node_label.clone())
    }
}

// === impl Topology ===

impl Topology {
    /// Puts a node into its domains; says which is its finest.
    fn place<'n>(
        &mut self,
        id: NodeId,
        node: &'n Node,
        known: &mut HashMap<(usize, &'n str), usize>,
    ) -> Option<usize> {
        let mut values = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            values.push(node.labels.get(level)?);
        }
        let mut at = 0;
        if let Some(root) = self.domains.first_mut() {
            root.nodes.push(id);
        }
        for (depth, value) in values.iter().enumerate() {
            let next = self.domains.len();
            let domain = *known.entry((at, *value)).or_insert(next);
            if domain == next {
                let above = self.domains.get(at).map_or("", |parent| parent.id.as_str());
                let id = if depth == 0 { (*value).to_owned() } else { format!("{above}.{value}") };
                self.domains.push(Domain {
                    id,
                    depth: depth + 1,
                    parent: Some(at),
                    children: Vec::new(),
                    nodes: Vec::new(),
                });
                if let Some(parent) = self.domains.get_mut(at) {
                    parent.children.push(domain);
                }
            }
            if let Some(domain) = self.domains.get_mut(domain) {
                domain.nodes.push(id);
            }
            at = domain;
        }
        Some(at)
    }
}

fn root() -> Domain {
    Domain { id: String::new(), depth: 0, parent: None, children: Vec::new(), nodes: Vec::new() }
}
