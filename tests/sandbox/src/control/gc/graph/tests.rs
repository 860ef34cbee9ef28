//! Who goes, who stays, who waits.

use serde_json::json;

use super::super::super::kind::{JOBS, NODES, PODS};
use super::*;

fn mk(kind: &Kind, namespace: &str, name: &str, owners: &[(&Kind, &str, bool)]) -> Arc<Value> {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, name, block)| {
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": name,
                "uid": format!("{name}-uid"), "blockOwnerDeletion": block})
        })
        .collect();
    let mut metadata = json!({"name": name, "uid": format!("{name}-uid"),
        "ownerReferences": owners});
    if kind.namespaced {
        metadata["namespace"] = namespace.into();
    }
    Arc::new(json!({ "metadata": metadata }))
}

fn going(object: &Arc<Value>, finalizers: &[&str]) -> Arc<Value> {
    let mut object = Value::clone(object);
    object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    object["metadata"]["finalizers"] = finalizers.into();
    Arc::new(object)
}

fn verdict(graph: &Graph, object: &Value) -> GarbageVerdict {
    let owners: Vec<(Owner, OwnerState)> = owners(object)
        .into_iter()
        .map(|owner| {
            // The server says of an owner that nobody has seen that it is not there.
            let standing = match graph.standing(object, &owner) {
                OwnerState::Unknown => OwnerState::Absent,
                known => known,
            };
            (owner, standing)
        })
        .collect();
    graph.verdict(object, &owners)
}

#[test]
fn a_dependent_stays_while_its_owner_is_there_and_goes_with_it() {
    let mut graph = Graph::default();
    let (owner, pod) = (mk(&JOBS, "n", "j", &[]), mk(&PODS, "n", "p", &[(&JOBS, "j", true)]));
    graph.change(&JOBS, None, Some(&owner));
    assert!(graph.change(&PODS, None, Some(&pod)).is_empty(), "nothing to look at");
    assert_eq!(verdict(&graph, &pod), GarbageVerdict::Keep);
    assert_eq!(graph.change(&JOBS, Some(&owner), None), ["p-uid"]);
    assert_eq!(verdict(&graph, &pod), GarbageVerdict::Delete(Propagation::Background));
}

#[test]
fn a_dependent_that_comes_before_its_owner_is_looked_at_and_unknown() {
    let mut graph = Graph::default();
    let pod = mk(&PODS, "n", "p", &[(&JOBS, "j", true)]);
    assert_eq!(graph.change(&PODS, None, Some(&pod)), ["p-uid"]);
    assert_eq!(graph.standing(&pod, &owners(&pod)[0]), OwnerState::Unknown);
    assert_eq!(graph.unseen().len(), 1);
}

#[test]
fn an_owner_in_another_namespace_or_of_another_name_or_kind_is_absent() {
    let cluster = mk(&NODES, "", "o", &[]);
    for (owner_kind, owner, named, standing) in [
        (&JOBS, mk(&JOBS, "n", "o", &[]), &JOBS, OwnerState::Solid),
        (&JOBS, mk(&JOBS, "other", "o", &[]), &JOBS, OwnerState::Absent),
        (&JOBS, mk(&JOBS, "n", "o", &[]), &PODS, OwnerState::Absent),
        (&NODES, cluster, &NODES, OwnerState::Solid),
    ] {
        let mut graph = Graph::default();
        graph.change(owner_kind, None, Some(&owner));
        let pod = mk(&PODS, "n", "p", &[(named, "o", true)]);
        assert_eq!(graph.standing(&pod, &owners(&pod)[0]), standing);
    }
}

#[test]
fn a_cluster_object_cannot_be_owned_from_a_namespace() {
    let mut graph = Graph::default();
    graph.change(&JOBS, None, Some(&mk(&JOBS, "n", "j", &[])));
    let node = mk(&NODES, "", "node", &[(&JOBS, "j", true)]);
    assert_eq!(graph.standing(&node, &owners(&node)[0]), OwnerState::Absent);
}

#[test]
fn an_object_with_one_owner_left_only_loses_the_reference() {
    let mut graph = Graph::default();
    graph.change(&JOBS, None, Some(&mk(&JOBS, "n", "stays", &[])));
    let pod = mk(&PODS, "n", "p", &[(&JOBS, "stays", true), (&JOBS, "gone", true)]);
    assert_eq!(verdict(&graph, &pod), GarbageVerdict::Unlink(vec!["gone-uid".to_owned()]));
}

#[test]
fn an_owner_in_the_foreground_waits_for_those_that_block_it() {
    let mut graph = Graph::default();
    let owner = mk(&JOBS, "n", "j", &[]);
    let blocks = mk(&PODS, "n", "blocks", &[(&JOBS, "j", true)]);
    let loose = mk(&PODS, "n", "loose", &[(&JOBS, "j", false)]);
    graph.change(&JOBS, None, Some(&owner));
    graph.change(&PODS, None, Some(&blocks));
    graph.change(&PODS, None, Some(&loose));
    let waiting = going(&owner, &[FOREGROUND]);
    assert_eq!(graph.change(&JOBS, Some(&owner), Some(&waiting)), ["j-uid"]);
    let names: Vec<String> =
        graph.blockers("j-uid").iter().map(|n| meta::name(&n.object).to_owned()).collect();
    assert_eq!(names, ["blocks"]);
    assert_eq!(verdict(&graph, &blocks), GarbageVerdict::Delete(Propagation::Background));
    assert_eq!(graph.change(&PODS, Some(&blocks), None), ["j-uid"], "the owner is looked at again");
    assert!(graph.blockers("j-uid").is_empty());
}

#[test]
fn in_the_foreground_a_dependent_with_dependents_goes_in_the_foreground_too() {
    let mut graph = Graph::default();
    let owner = going(&mk(&JOBS, "n", "top", &[]), &[FOREGROUND]);
    let middle = mk(&JOBS, "n", "middle", &[(&JOBS, "top", true)]);
    graph.change(&JOBS, None, Some(&owner));
    graph.change(&JOBS, None, Some(&middle));
    graph.change(&PODS, None, Some(&mk(&PODS, "n", "p", &[(&JOBS, "middle", true)])));
    assert_eq!(verdict(&graph, &middle), GarbageVerdict::Delete(Propagation::Foreground));
}

#[test]
fn an_object_that_is_going_already_is_not_deleted_again() {
    let graph = Graph::default();
    let pod = going(&mk(&PODS, "n", "p", &[(&JOBS, "gone", true)]), &["x"]);
    assert_eq!(verdict(&graph, &pod), GarbageVerdict::Keep);
}

#[test]
fn an_orphaning_owner_is_looked_at_and_its_dependents_are_known() {
    let mut graph = Graph::default();
    let owner = mk(&JOBS, "n", "j", &[]);
    graph.change(&JOBS, None, Some(&owner));
    graph.change(&PODS, None, Some(&mk(&PODS, "n", "p", &[(&JOBS, "j", true)])));
    let leaving = going(&owner, &[ORPHAN]);
    assert_eq!(graph.change(&JOBS, Some(&owner), Some(&leaving)), ["j-uid"]);
    assert!(orphans_dependents(&leaving) && !waits_for_dependents(&leaving));
    assert_eq!(graph.dependents("j-uid").len(), 1);
}

#[test]
fn a_ring_is_found_only_when_all_of_it_waits() {
    // Each member with the one that owns it and whether it waits, then who of them keeps `a` for ever.
    type Member = (&'static str, &'static str, bool);
    let cases: [(&[Member], &[&str]); 6] = [
        (&[("a", "a", true)], &["a"]),
        (&[("a", "a", false)], &[]),
        (&[("a", "b", true), ("b", "a", true)], &["b"]),
        (&[("a", "b", true), ("b", "a", false)], &[]),
        (&[("a", "c", true), ("b", "a", true), ("c", "b", true)], &["b"]),
        // A chain: `b` waits for `c`, and nobody waits for `a` to go.
        (&[("a", "none", true), ("b", "a", true), ("c", "b", true)], &[]),
    ];
    for (members, stuck) in cases {
        let mut graph = Graph::default();
        for (name, owner, waits) in members {
            let object = mk(&JOBS, "n", name, &[(&JOBS, owner, true)]);
            let object = if *waits { going(&object, &[FOREGROUND]) } else { object };
            graph.change(&JOBS, None, Some(&object));
        }
        let ring = graph.ring("a-uid");
        let names: Vec<&str> = ring.iter().map(|n| meta::name(&n.object)).collect();
        assert_eq!(names, stuck, "{members:?}");
    }
}
