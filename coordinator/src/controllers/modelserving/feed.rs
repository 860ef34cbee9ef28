//! What has changed, and which ModelServings that concerns.

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::broadcast::Receiver;

use super::Sources;
use super::known::Thing;
use crate::watch::{Missed, drain, heard};

/// One change.
#[derive(Debug)]
pub enum Change {
    /// Of a ModelServing, by namespace and name; which shape is to be seen.
    Serving(String, String),
    /// Of something that may be a ModelServing's.
    Thing(Thing, String, String),
    /// Of a record, by namespace and name.
    Record(String, String),
    /// Of a template, or of what the cluster knows.
    Surroundings,
    /// Something was missed: look at everything.
    All,
}

/// What one receiver says.
macro_rules! feeds {
    ($($name:ident: $kind:ty => $change:expr),* $(,)?) => {
        /// Everything that may change.
        pub struct Feed {
            $($name: Receiver<ObjectRef<$kind>>,)*
        }

        impl Feed {
            /// The next change. None when a source has ended.
            pub async fn next(&mut self) -> Option<Change> {
                tokio::select! {
                    $(change = self.$name.recv() => heard(change, $change),)*
                }
            }

            /// What has come in the meantime.
            pub fn more(&mut self) -> Vec<Change> {
                let mut changes = Vec::new();
                $(drain(&mut self.$name, &mut changes, $change);)*
                changes
            }
        }
    };
}

feeds! {
    kthena: super::KthenaServing => |one| { let (space, name) = place(one); Change::Serving(space, name) },
    seed: super::SeedServing => |one| { let (space, name) = place(one); Change::Serving(space, name) },
    pods: super::Pod => |one| { let (space, name) = place(one); Change::Thing(Thing::Pod, space, name) },
    services: super::Service => |one| { let (space, name) = place(one); Change::Thing(Thing::Service, space, name) },
    revisions: super::ControllerRevision => |one| { let (space, name) = place(one); Change::Thing(Thing::Revision, space, name) },
    pod_groups: super::PodGroup => |one| { let (space, name) = place(one); Change::Thing(Thing::PodGroup, space, name) },
    records: super::ConfigMap => |one| { let (space, name) = place(one); Change::Record(space, name) },
    templates: super::ConfigMap => |_| Change::Surroundings,
    definitions: super::CustomResourceDefinition => |_| Change::Surroundings,
}

// === impl Feed ===

impl Feed {
    /// Hears from now on.
    pub fn new(sources: &Sources) -> Self {
        Self {
            kthena: sources.kthena.subscribe(),
            seed: sources.seed.subscribe(),
            pods: sources.pods.subscribe(),
            services: sources.services.subscribe(),
            revisions: sources.revisions.subscribe(),
            pod_groups: sources.pod_groups.subscribe(),
            records: sources.records.subscribe(),
            templates: sources.templates.maps().subscribe(),
            definitions: sources.pod_group_definition.subscribe(),
        }
    }
}

fn place<K: Resource>(object: ObjectRef<K>) -> (String, String) {
    (object.namespace.unwrap_or_default(), object.name)
}

impl Missed for Change {
    fn missed() -> Self {
        Self::All
    }
}
