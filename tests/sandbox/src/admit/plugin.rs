//! The compiled-in plugins, in the order of a stock server.

use muster_objects::status::Status;

use super::{
    Attempt, lifecycle::NamespaceLifecycle, node_restriction::NodeRestriction, priority::Priority,
    runtime_class::RuntimeClass, service_account::ServiceAccount, taint::TaintNodesByCondition,
    toleration::DefaultTolerationSeconds,
};
use crate::store::Store;

/// One compiled-in plugin.
pub trait Plugin: Send + Sync {
    /// May change or refuse the object.
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        let _ = (attempt, store);
        Ok(())
    }

    /// May refuse the object, after all changes.
    fn validate(&self, attempt: &Attempt<'_>, store: &Store) -> Result<(), Status> {
        let _ = (attempt, store);
        Ok(())
    }
}

/// All plugins, in order.
pub fn plugins() -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(NamespaceLifecycle),
        Box::new(ServiceAccount),
        Box::new(NodeRestriction),
        Box::new(TaintNodesByCondition),
        Box::new(Priority),
        Box::new(DefaultTolerationSeconds),
        Box::new(RuntimeClass),
    ]
}
