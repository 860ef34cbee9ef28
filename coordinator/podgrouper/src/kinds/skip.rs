//! Kinds that only wrap another one: the next owner is grouped, with what the wrapper says added.

use std::sync::Arc;

use super::{exact, plain};
use crate::base::Context;
use crate::draft::Draft;
use crate::error::GroupError;
use crate::names;
use crate::object::Object;

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    chain: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let below = chain.split_last().map_or(chain, |(_, below)| below);
    let mut next = below.last().map_or_else(|| cx.pod.clone(), |next| next.as_ref().clone());
    let mut owners = below.to_vec();
    if let Some(defaults) = cx.defaults()?
        && let Some(kind) = defaults.of(top)
    {
        let mut nearest = owners.pop().map(|owner| owner.as_ref().clone());
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                next.add_label(key, value);
                nearest.iter_mut().for_each(|owner| owner.add_label(key, value));
            }
        };
        if cx.class_exists(&kind.priority)? {
            add(names::PRIORITY, &kind.priority);
        }
        add(names::PREEMPTIBILITY, &kind.preemptibility);
        owners.extend(nearest.map(Arc::new));
    }
    for (key, value) in top.labels() {
        next.add_label(&key, &value);
    }
    for (key, value) in top.annotations() {
        next.add_annotation(&key, &value);
    }
    let (group, version) = next.group_and_version();
    exact(group, version, next.kind()).unwrap_or(plain::group)(cx, &next, &owners)
}
