//! A pod, as it is created.

use serde_json::Value;

/// The place of a pod in its ModelServing.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The ModelServing.
    pub serving: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The group.
    pub group: &'a str,
    /// The role.
    pub role: &'a str,
    /// The instance of the role.
    pub role_id: &'a str,
    /// The pod in the instance: 0 is the entry.
    pub index: i32,
    /// How many pods the instance has.
    pub size: i32,
    /// The pod's name.
    pub name: &'a str,
}

/// What else is done to a pod before it is created. Comes last, after plugins.
pub trait Adorn {
    /// Changes the pod, or says why it cannot be made.
    fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String>;
}

/// Nothing else is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Adorn for Plain {
    fn pod(&self, _: &Slot<'_>, _: &mut Value) -> Result<(), String> {
        Ok(())
    }
}
