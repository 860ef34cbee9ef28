//! Quantities as the built-in kinds hold them: texts, read when they are needed.

use muster_objects::quantity::Quantity;

/// The amount of a text; what is no quantity counts as nothing.
pub(super) fn of(text: &str) -> Quantity {
    text.parse().unwrap_or(Quantity::ZERO)
}

/// Billionths.
pub(super) fn nanos(text: &str) -> i128 {
    of(text).as_nano()
}

/// The same quantity in whole thousandths, rounded up.
pub(super) fn rounded_to_milli(text: &str) -> Option<String> {
    let milli = i64::try_from(of(text).as_milli()).ok()?;
    Some(Quantity::milli(milli).to_string())
}
