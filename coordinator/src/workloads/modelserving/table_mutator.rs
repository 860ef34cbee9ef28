//! What is added to pods that share a rank table, with the templates of this cluster.

use std::sync::Arc;

use muster_modelserving::table_mutator::{self, Templates as Source};
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;

use crate::ranktables::templates::Templates;

pub use muster_modelserving::table_mutator::TableError;

/// What is done to the pods of one ModelServing.
pub type TableMutator = table_mutator::TableMutator<Templates>;

impl Source for Templates {
    fn template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.get(name)
    }
}

#[cfg(test)]
mod tests {
    use crate::ranktables::conditions::reason;

    #[test]
    fn a_template_that_cannot_be_used_has_one_reason_everywhere() {
        assert_eq!(muster_modelserving::table_mutator::TEMPLATE_INVALID, reason::TEMPLATE_INVALID);
    }
}
