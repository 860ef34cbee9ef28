//! Quantities as the built-in kinds hold them: texts, read when they are needed.

use muster_kube::quantity::Quantity;

/// The amount of a text; what is no quantity counts as nothing.
pub(super) fn of(text: &str) -> Quantity {
    text.parse().unwrap_or(Quantity::ZERO)
}

pub(super) fn nanos(text: &str) -> i128 {
    of(text).nano()
}

/// The same quantity in whole thousandths, rounded up.
pub(super) fn rounded_to_milli(text: &str) -> Option<String> {
    let milli = of(text).milli();
    // The largest number may stand for more.
    (milli.unsigned_abs() < i64::MAX.unsigned_abs())
        .then(|| Quantity::from_milli(milli).to_string())
}
