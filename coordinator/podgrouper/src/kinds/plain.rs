//! Kinds whose pods are placed one by one, in one group with a minimum of one.

use std::sync::Arc;

use crate::base::Context;
use crate::draft::Draft;
use crate::error::GroupError;
use crate::names;
use crate::object::Object;

/// StatefulSets and the like, and every kind that has no rules of its own.
pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    chain: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    cx.draft(top, chain)
}

/// People wait for a notebook.
pub(super) fn notebook(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    of_class(cx, top, names::BUILD)
}

/// A SPOTRequest serves.
pub(super) fn spot_request(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    of_class(cx, top, names::INFERENCE)
}

fn of_class(cx: &Context<'_>, top: &Object, class: &str) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    draft.priority_class = cx.priority(top, class)?;
    Ok(draft)
}
