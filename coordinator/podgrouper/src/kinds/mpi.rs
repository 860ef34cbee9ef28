//! MPIJobs: a launcher that is made only when the workers are ready is not waited for before it exists.

use std::sync::Arc;

use super::{int32, kubeflow};
use crate::base::Context;
use crate::draft::{Draft, Least};
use crate::error::{Class, GroupError};
use crate::object::Object;

const SPECS: &str = "mpiReplicaSpecs";
const LAUNCHER: [&str; 4] = ["spec", SPECS, "Launcher", "replicas"];

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = kubeflow::distributed(cx, top, SPECS, &["Launcher", "Worker"])?;
    let root = top.root();
    let late = root.text(&["spec", "launcherCreationPolicy"])? == Some("WaitForWorkersReady");
    if !late || launcher_exists(cx, top)? {
        return Ok(draft);
    }
    let launchers = root.int(&LAUNCHER).ok().flatten().filter(|replicas| *replicas != 0);
    let launchers = launchers.ok_or_else(|| {
        root.error(Class::ZeroReplicas, &LAUNCHER, "it has no replicas", "write a number above 0")
    })?;
    if let Least::Pods(least) = draft.least {
        let least = i64::from(least).saturating_sub(launchers);
        draft.least = Least::Pods(int32(least, top, &root.at(&LAUNCHER))?);
    }
    Ok(draft)
}

fn launcher_exists(cx: &Context<'_>, top: &Object) -> Result<bool, GroupError> {
    let labels = [
        ("training.kubeflow.org/job-name", top.name()),
        ("training.kubeflow.org/job-role", "launcher"),
    ];
    Ok(cx.pods(&labels)?.iter().any(|pod| !pod.is_deleting()))
}
