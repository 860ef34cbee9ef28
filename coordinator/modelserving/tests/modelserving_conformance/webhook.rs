//! What the webhook refuses.

use std::path::Path;

use crate::Outcome;

/// All cases of the webhook.
pub fn run(_: &Path) -> Vec<Outcome> {
    Vec::new()
}
