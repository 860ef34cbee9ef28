//! Groups whose decision panics: they wait with a reason, and all others go on.

use std::collections::BTreeMap;

use muster_scheduler::config::PluginOption;
use muster_scheduler::framework::{Plugin, Point, View};
use muster_scheduler::reason::{Reason, Refusal};
use muster_scheduler::snapshot::TaskId;
use muster_scheduler_state::{Cluster, Cycle, Settings};
use proptest::prelude::*;

use super::{at, cluster_of, group, pod, put};

/// A plugin with a fault: it panics on pods whose name begins with `poison`.
struct Faulty;

impl Plugin for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PrePredicate]
    }

    fn pre_predicate(&self, view: View<'_>, task: TaskId) -> Result<(), Refusal> {
        let name = view.snapshot.tasks[task].key.name();
        assert!(!name.starts_with("poison"), "cannot judge {name}");
        Ok(())
    }
}

/// One node of eight devices, with the faulty plugin.
fn cluster() -> Cluster {
    let mut settings = Settings::default();
    settings.registry.register("faulty", |_| Box::new(Faulty));
    let arguments = BTreeMap::new();
    settings.config.plugins.push(PluginOption { name: "faulty".to_owned(), arguments });
    cluster_of(settings)
}

fn wait(cluster: &mut Cluster, name: &str) {
    put(cluster, "PodGroup", group(name, "due", 1));
    put(cluster, "Pod", pod(name, name, 1, ""));
}

/// Names of the pods that get a node.
fn bound(cycle: &Cycle) -> Vec<&str> {
    cycle.binds.iter().map(|bind| &*bind.pod.1).collect()
}

/// Groups that wait because their decision panicked.
fn failed(cycle: &Cycle) -> Vec<&str> {
    let all = cycle.decisions.reasons.iter();
    all.filter(|(_, why)| why.reason == Reason::DecisionFailed).map(|(group, _)| &**group).collect()
}

#[test]
fn a_group_that_cannot_be_decided_on_is_told_why_and_the_others_are_placed() {
    let mut cluster = cluster();
    for name in ["first", "poison", "second"] {
        wait(&mut cluster, name);
    }
    let cycle = cluster.cycle(at(0));
    assert_eq!(bound(&cycle), ["first", "second"]);
    assert_eq!(failed(&cycle), ["team/poison"]);
    let why = &cycle.decisions.reasons["team/poison"];
    assert_eq!((why.pods, why.needed), (1, 1));
    assert!(why.message.contains("cannot judge poison"), "{}", why.message);
    assert!(why.message.contains("until 2026-01-01T00:01:00Z"), "{}", why.message);
    assert!(cycle.panics > 0);
}

#[test]
fn while_a_group_is_left_out_no_decision_panics_and_new_groups_are_placed() {
    let mut cluster = cluster();
    wait(&mut cluster, "poison");
    cluster.cycle(at(0));
    wait(&mut cluster, "later");
    let cycle = cluster.cycle(at(30));
    assert_eq!((bound(&cycle), failed(&cycle)), (vec!["later"], vec!["team/poison"]));
    assert_eq!(cycle.panics, 0);
}

#[test]
fn a_group_is_tried_again_after_a_pause_that_doubles() {
    let mut cluster = cluster();
    wait(&mut cluster, "poison");
    let mut now = 0;
    for pause in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
        let cycle = cluster.cycle(at(now));
        assert_eq!(failed(&cycle), ["team/poison"]);
        assert!(cycle.panics > 0, "at {now} it is tried");
        assert_eq!(cluster.next(), Some(at(now + pause)), "after {now}");
        assert_eq!(cluster.cycle(at(now + pause - 1)).panics, 0);
        now += pause;
    }
}

#[test]
fn a_group_whose_pods_are_mended_is_placed_when_its_pause_is_over() {
    let mut cluster = cluster();
    wait(&mut cluster, "poison");
    cluster.cycle(at(0));
    cluster.remove(muster_scheduler_state::Kind::Pod, &super::name("team", "poison"));
    put(&mut cluster, "Pod", pod("mended", "poison", 1, ""));
    let cycle = cluster.cycle(at(60));
    assert_eq!((bound(&cycle), failed(&cycle)), (vec!["mended"], vec![]));
    assert_eq!(cluster.next(), cluster.in_flight().next());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whichever_groups_cannot_be_decided_on_all_others_are_placed(
        bad in proptest::collection::vec(any::<bool>(), 1..8),
    ) {
        let mut cluster = cluster();
        for (at, bad) in bad.iter().enumerate() {
            wait(&mut cluster, &format!("{}-{at}", if *bad { "poison" } else { "good" }));
        }
        let cycle = cluster.cycle(at(0));
        let good = bad.iter().filter(|bad| !**bad).count();
        prop_assert_eq!(bound(&cycle).len(), good);
        prop_assert_eq!(failed(&cycle).len(), bad.len() - good);
    }
}
