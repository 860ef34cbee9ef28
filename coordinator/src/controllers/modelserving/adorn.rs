//! What pods get that share a rank table, with the templates of this cluster.

use std::sync::Arc;

use muster_modelserving::dress;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;

use crate::templates::Templates;

pub use muster_modelserving::dress::Trouble;

/// What is done to the pods of one ModelServing.
pub type Dress = dress::Dress<Templates>;

impl dress::Templates for Templates {
    fn template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.get(name)
    }
}

#[cfg(test)]
mod tests {
    use crate::conditions::reason;

    #[test]
    fn a_template_that_cannot_be_used_has_one_reason_everywhere() {
        assert_eq!(muster_modelserving::dress::TEMPLATE_INVALID, reason::TEMPLATE_INVALID);
    }
}
