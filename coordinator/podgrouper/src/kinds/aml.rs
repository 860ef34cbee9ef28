//! Azure's AmlJob: its environment says how many nodes there are.

use std::sync::Arc;

use super::int32;
use crate::base::Context;
use crate::draft::{Draft, Least};
use crate::error::{Class, GroupError};
use crate::object::Object;

const COUNT: [&str; 5] = ["spec", "job", "options", "envs", "AZUREML_NODE_COUNT"];

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let root = top.root();
    let missing = || {
        root.error(
            Class::AmlNodeCountMissing,
            &COUNT,
            "there is no node count",
            "set AZUREML_NODE_COUNT to a whole number",
        )
    };
    let count = root.int(&COUNT).ok().flatten().ok_or_else(missing)?;
    draft.least = Least::Pods(int32(count, top, &root.at(&COUNT))?);
    Ok(draft)
}
