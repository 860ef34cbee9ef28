//! Pods that nobody owns, or whose owner may not be read. Spark's share the group that their selector names.

use std::sync::Arc;

use crate::base::Context;
use crate::draft::Draft;
use crate::error::GroupError;
use crate::object::Object;

const SPARK_APP: &str = "spark-app-name";
const SPARK_SELECTOR: &str = "spark-app-selector";

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    if let (Some(_), Some(selector)) = (cx.pod.label(SPARK_APP), cx.pod.label(SPARK_SELECTOR)) {
        draft.name = selector.to_owned();
    }
    Ok(draft)
}
