//! A plugin of a user's own: as in docs/scheduler.md.

use std::collections::BTreeMap;

use muster_scheduler::{
    framework::{Plugin, Point, Registry, Scope, View},
    reason::NodeRefusal,
    snapshot::{ClassId, NodeId, TaskId},
};
use serde_json::json;

use crate::world::{World, told};

/// Nodes that are under maintenance take nothing; nodes with the label `fast` are better.
struct Maintenance {
    label: String,
}

impl Plugin for Maintenance {
    fn name(&self) -> &'static str {
        "maintenance"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Predicate, Point::NodeOrder, Point::BindRequestMutate]
    }

    fn fixed_predicate(&self, view: View<'_>, _: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
        match view.snapshot.nodes[node].labels.get(&self.label) {
            Some("true") => Err(NodeRefusal::Custom("node is under maintenance")),
            _ => Ok(()),
        }
    }

    fn predicate_scope(&self, _: View<'_>, _: ClassId) -> Scope {
        Scope::Static
    }

    fn node_order_scope(&self, _: View<'_>, _: TaskId) -> Scope {
        Scope::Static
    }

    fn node_order(&self, view: View<'_>, _: TaskId, node: NodeId) -> Option<f64> {
        Some(if view.snapshot.nodes[node].labels.get("fast").is_some() { 20.0 } else { 0.0 })
    }

    fn bind_request(
        &self,
        _: View<'_>,
        _: TaskId,
        _: NodeId,
        annotations: &mut BTreeMap<String, String>,
    ) {
        annotations.insert("example.com/seen".to_owned(), "yes".to_owned());
    }
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register("maintenance", |arguments| {
        let label = arguments.get("label").cloned().unwrap_or_else(|| "maintenance".to_owned());
        Box::new(Maintenance { label })
    });
    registry
}

#[test]
fn a_plugin_of_ones_own_refuses_scores_and_marks() {
    let plugins = json!([{"name": "predicates"}, {"name": "proportion"}, {"name": "nodeavailability"},
        {"name": "nodeplacement"}, {"name": "maintenance", "arguments": {"label": "down"}}]);
    let world = World::new()
        .node("a", 1, json!({"down": "true"}))
        .node("b", 1, json!({}))
        .node("c", 1, json!({"fast": ""}))
        .queue("q", -1.0)
        .group("g", "q", json!({"minMember": 2}))
        .group("h", "q", json!({}))
        .pods("g", 2, 1, "")
        .pods("h", 1, 1, "")
        .config(json!({"actions": "allocate", "tiers": [{"plugins": plugins}]}));
    let decided = world.decide_with(&registry(), &["maintenance"]);
    assert_eq!(told(&decided), ["bind g-0 c", "bind g-1 b"]);
    assert_eq!(decided.decisions[0].annotations["example.com/seen"], "yes");
    assert_eq!(decided.reasons["ns/h"].nodes["node is under maintenance"], 1);
}
