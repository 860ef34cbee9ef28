//! The list of plugins, and what they watch.

use std::collections::BTreeSet;

use muster_pipeline::Registry;
use muster_pipeline::plugin::Watch;

#[test]
fn names_are_unlike_and_there_is_one_that_knows_how_far_jobs_are() {
    let registry = Registry::standard();
    let names: BTreeSet<&str> = registry.names.iter().copied().collect();
    assert_eq!(names.len(), registry.names.len());
    assert_eq!(registry.status.unwrap().name(), "JobSet");
}

#[test]
fn every_kind_that_is_made_is_watched() {
    let watches = Registry::standard().watches();
    for owned in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ("scheduling.run.ai/v2alpha2", "PodGroup"),
    ] {
        assert!(watches.contains(&Watch::Owned(owned.0, owned.1)), "{owned:?}");
    }
    assert!(watches.contains(&Watch::LimitRange) && watches.contains(&Watch::RuntimeClass));
}
