//! Deployments: each pod is a group of its own, which goes with it.

use std::sync::Arc;

use crate::base::{Context, group_name};
use crate::draft::Draft;
use crate::error::GroupError;
use crate::names;
use crate::object::Object;

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    draft.owner = cx.pod.reference();
    draft.priority_class = cx.priority(top, names::INFERENCE)?;
    draft.name = group_name(cx.pod);
    Ok(draft)
}
