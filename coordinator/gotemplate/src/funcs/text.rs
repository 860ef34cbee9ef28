//! text

use super::Functions;

pub(super) fn register(_: &mut Functions) {}
