//! What is known of a ModelServing's groups and instances between two events: how far each one is, and from what it
//! was made. Rebuilt from pods after a restart.

use std::sync::Arc;

use crate::naming;

/// How far a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Not all instances are ready.
    Creating,
    /// All are.
    Running,
    /// It has had too few or too many instances, and they are not all ready again.
    Scaling,
    /// All its things are on their way out.
    Deleting,
}

/// How far an instance of a role is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Not all pods are ready.
    Creating,
    /// All are.
    Running,
    /// All its things are on their way out.
    Deleting,
}

/// A serving group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: Arc<str>,
    /// The number in its name.
    pub ordinal: i64,
    /// How far it is.
    pub state: GroupState,
    /// The roles that it was made from.
    pub revision: Arc<str>,
    /// Its roles, by name.
    pub roles: Vec<Instances>,
}

/// The instances of a role in a group.
#[derive(Clone, Debug)]
pub struct Instances {
    /// The role.
    pub role: Arc<str>,
    /// By ordinal.
    pub list: Vec<Instance>,
}

/// An instance of a role.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its id.
    pub id: Arc<str>,
    /// The number in its id.
    pub ordinal: i64,
    /// How far it is.
    pub state: InstanceState,
    /// The roles that it was made from.
    pub revision: Arc<str>,
    /// The role that it was made from; empty if nobody knows.
    pub hash: Arc<str>,
}

/// The groups of one ModelServing, by ordinal.
#[derive(Clone, Debug, Default)]
pub struct Store {
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub group: Arc<str>,
    pub role: Arc<str>,
    pub id: Arc<str>,
}

/// What a step makes of the store, once it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    AddGroup {
        group: Arc<str>,
        revision: Arc<str>,
    },
    AddInstance {
        at: At,
        revision: Arc<str>,
        hash: Arc<str>,
    },
    /// Never takes a group out of `Deleting`.
    Group(Arc<str>, GroupState),
    GroupRevision(Arc<str>, Arc<str>),
    /// Never takes an instance out of `Deleting`.
    Instance(At, InstanceState),
    /// The deletion has failed: back to what it was.
    KeepGroup(Arc<str>, GroupState),
    /// The deletion has failed: back to what it was.
    KeepInstance(At, InstanceState),
    /// Only if it is `Deleting`.
    GroupGone(Arc<str>),
    /// Only if it is `Deleting`.
    InstanceGone(At),
    /// The pod that failed has had its time.
    GraceOver(Arc<str>),
    /// The pod was on its way out when an instance was made in the place of its own: that it goes is no loss.
    Replaced(Arc<str>),
}

// === impl Store ===

impl Store {
    /// All groups, by ordinal.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A group.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.find(name).ok().and_then(|at| self.groups.get(at))
    }

    /// An instance.
    pub fn instance(&self, group: &str, role: &str, id: &str) -> Option<&Instance> {
        self.group(group)?.instances(role).iter().find(|instance| &*instance.id == id)
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::AddGroup { group, revision } => drop(self.add(group, revision)),
            Change::AddInstance { at, revision, hash } => {
                self.add(&at.group, revision).add(&at.role, &at.id, revision, hash);
            }
            Change::Group(group, state) => self.change(group, |group| {
                if group.state != GroupState::Deleting {
                    group.state = *state;
                }
            }),
            Change::KeepGroup(group, state) => self.change(group, |group| group.state = *state),
            Change::GroupRevision(group, revision) => {
                self.change(group, |group| group.revision = revision.clone());
            }
            Change::Instance(at, state) => self.change_instance(at, |instance| {
                if instance.state != InstanceState::Deleting {
                    instance.state = *state;
                }
            }),
            Change::KeepInstance(at, state) => {
                self.change_instance(at, |instance| instance.state = *state);
            }
            Change::GroupGone(gone) => self
                .groups
                .retain(|group| group.name != *gone || group.state != GroupState::Deleting),
            Change::InstanceGone(at) => self.change(&at.group, |group| {
                let roles = group.roles.iter_mut().filter(|role| role.role == at.role);
                for role in roles {
                    role.list.retain(|instance| {
                        instance.id != at.id || instance.state != InstanceState::Deleting
                    });
                }
            }),
            Change::GraceOver(_) | Change::Replaced(_) => {}
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        let ordinal = naming::ordinal(name);
        self.groups.binary_search_by(|group| (group.ordinal, &*group.name).cmp(&(ordinal, name)))
    }

    fn add(&mut self, name: &Arc<str>, revision: &Arc<str>) -> &mut Group {
        let at = self.find(name).unwrap_or_else(|at| {
            let group = Group {
                name: name.clone(),
                ordinal: naming::ordinal(name),
                state: GroupState::Creating,
                revision: revision.clone(),
                roles: Vec::new(),
            };
            self.groups.insert(at, group);
            at
        });
        &mut self.groups[at]
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.find(name).ok().and_then(|at| self.groups.get_mut(at)) {
            change(group);
        }
    }

    fn change_instance(&mut self, at: &At, change: impl FnOnce(&mut Instance)) {
        self.change(&at.group, |group| {
            let role = group.roles.iter_mut().find(|role| role.role == at.role);
            let instance = role.and_then(|role| role.list.iter_mut().find(|it| it.id == at.id));
            if let Some(instance) = instance {
                change(instance);
            }
        });
    }
}

// === impl Group ===

impl Group {
    /// The instances of a role, by ordinal.
    pub fn instances(&self, role: &str) -> &[Instance] {
        self.roles.iter().find(|known| &*known.role == role).map_or(&[], |known| &known.list)
    }

    fn add(&mut self, role: &Arc<str>, id: &Arc<str>, revision: &Arc<str>, hash: &Arc<str>) {
        let at = self.roles.binary_search_by(|known| known.role.cmp(role)).unwrap_or_else(|at| {
            self.roles.insert(at, Instances { role: role.clone(), list: Vec::new() });
            at
        });
        let list = &mut self.roles[at].list;
        let ordinal = naming::ordinal(id);
        let place = list.binary_search_by(|it| (it.ordinal, &*it.id).cmp(&(ordinal, &**id)));
        if let Err(place) = place {
            let instance = Instance {
                id: id.clone(),
                ordinal,
                state: InstanceState::Creating,
                revision: revision.clone(),
                hash: hash.clone(),
            };
            list.insert(place, instance);
        }
    }
}
