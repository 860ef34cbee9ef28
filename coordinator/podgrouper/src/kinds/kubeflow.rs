//! Kubeflow's distributed jobs: as many pods as their replica specs have, or as their scheduling policy says.

use std::sync::Arc;

use super::int32;
use crate::base::Context;
use crate::draft::{Draft, Least};
use crate::error::{Class, GroupError};
use crate::object::Object;

/// Where a job says how many pods must be there at once.
pub(super) const MIN_AVAILABLE: [&str; 4] =
    ["spec", "runPolicy", "schedulingPolicy", "minAvailable"];

pub(super) fn tensorflow(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    distributed(cx, top, "tfReplicaSpecs", &[])
}

pub(super) fn xgboost(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    distributed(cx, top, "xgbReplicaSpecs", &["Master", "Worker"])
}

pub(super) fn jax(cx: &Context<'_>, top: &Object, _: &[Arc<Object>]) -> Result<Draft, GroupError> {
    distributed(cx, top, "jaxReplicaSpecs", &["Worker"])
}

/// One group, with the sum of all replicas as minimum.
pub(super) fn distributed(
    cx: &Context<'_>,
    top: &Object,
    specs: &str,
    needed: &[&str],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let root = top.root();
    let least = match root.int(&MIN_AVAILABLE)? {
        Some(least) => int32(least, top, &root.at(&MIN_AVAILABLE))?,
        None => int32(replicas(top, specs, needed)?, top, &root.at(&["spec", specs]))?,
    };
    draft.least = Least::Pods(least);
    Ok(draft)
}

fn replicas(top: &Object, specs: &str, needed: &[&str]) -> Result<i64, GroupError> {
    let root = top.root();
    let path = ["spec", specs];
    let Some(map) = root.map(&path)? else {
        return Err(root.error(
            Class::MissingReplicaSpecs,
            &path,
            "the job has none",
            "say there which pods the job has",
        ));
    };
    if let Some(name) = needed.iter().find(|name| !map.contains_key(**name)) {
        return Err(root.error(
            Class::MissingReplicaSpec,
            &["spec", specs, name],
            "a job of this kind must have it",
            "add it",
        ));
    }
    let mut total: i64 = 0;
    for name in map.keys() {
        let path = ["spec", specs, name, "replicas"];
        match root.int(&path)? {
            None | Some(0) => {
                return Err(root.error(
                    Class::ZeroReplicas,
                    &path,
                    "it has no replicas",
                    "write a number above 0, or leave the whole part out",
                ));
            }
            Some(replicas) => total = total.saturating_add(replicas),
        }
    }
    if total <= 0 {
        return Err(root.error(
            Class::NoPods,
            &path,
            format!("the job has {total} pods"),
            "ask for at least one",
        ));
    }
    Ok(total)
}
