//! run.ai's jobs: the group has the pod's name without its last part.

use std::sync::Arc;

use crate::base::{Context, named};
use crate::draft::Draft;
use crate::error::GroupError;
use crate::object::Object;
use crate::objects::Key;

pub(super) fn job(cx: &Context<'_>, top: &Object, _: &[Arc<Object>]) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let pod = cx.pod.name();
    if cx.config.legacy_groups {
        // Older releases named groups otherwise. Where there is one, the pod stays in it.
        let parallel = matches!(top.root().int(&["spec", "parallelism"]), Ok(Some(2..)));
        let legacy = named(if parallel { pod } else { top.name() }, top.uid());
        if cx.known(&Key::pod_group(cx.pod.namespace(), &legacy))?.is_some() {
            draft.name = legacy;
            return Ok(draft);
        }
    }
    let stem = pod.rsplit_once('-').map_or(pod, |(stem, _)| stem);
    draft.name = named(stem, top.uid());
    Ok(draft)
}
