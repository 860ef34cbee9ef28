//! Pods by role and by how they stand.

use std::collections::BTreeMap;

use crate::api::Counts;
use crate::pod::{Ended, Pod};
use crate::role::Role;

/// All that are counted, each with nothing.
pub fn zero() -> BTreeMap<String, Counts> {
    let keys = Role::ALL.into_iter().filter_map(Role::counted);
    keys.map(|key| (key.to_owned(), Counts::default())).collect()
}

/// Those that are not on their way out.
pub fn count<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<String, Counts> {
    let mut all = zero();
    for pod in pods.filter(|pod| !pod.is_terminating()) {
        let Some(counts) = pod.role().and_then(Role::counted).and_then(|key| all.get_mut(key))
        else {
            continue;
        };
        match (pod.phase(), pod.ended()) {
            ("Failed", _) | ("Running", Some(Ended::Badly)) => counts.failed += 1,
            ("Succeeded", _) | ("Running", Some(Ended::Well)) => counts.succeeded += 1,
            ("Running", None) => counts.active += 1,
            _ => {}
        }
    }
    all
}
