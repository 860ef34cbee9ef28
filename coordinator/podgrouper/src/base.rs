//! What every kind has in common: name, labels, queue, priority and topology of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use muster_kube::duration;

use crate::config::Config;
use crate::defaults::Defaults;
use crate::draft::{Draft, Least, Topology};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::Object;
use crate::objects::{Key, Objects, Refusal};
use crate::yaml;

/// What a grouper may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The pod.
    pub pod: &'a Object,
    /// What else there is.
    pub objects: &'a dyn Objects,
    /// Settings.
    pub config: &'a Config,
}

/// `pg-<name>-<uid>`.
pub fn group_name(object: &Object) -> String {
    named(object.name(), object.uid())
}

/// `pg-<name>-<uid>`, of any name.
pub fn named(name: &str, uid: &str) -> String {
    format!("pg-{name}-{uid}")
}

// === impl Context ===

impl Context<'_> {
    /// The group of an owner. Priority and delays are looked for on all `owners`, nearest to the pod first; on the
    /// owner alone if there are none.
    pub fn draft(&self, owner: &Object, owners: &[Arc<Object>]) -> Result<Draft, GroupError> {
        let alone = [Arc::new(owner.clone())];
        let owners = if owners.is_empty() { &alone } else { owners };
        Ok(Draft {
            name: group_name(owner),
            namespace: self.pod.namespace().to_owned(),
            labels: self.labels(owner),
            annotations: self.annotations(owner),
            owner: owner.reference(),
            queue: self.queue(owner)?,
            priority_class: self.priority_among(owners, names::TRAIN)?,
            preemptibility: self.preemptibility(owners)?,
            preemption_delay: self
                .duration(owners, names::PREEMPTION_DELAY, |span| !span.is_negative()),
            staleness: self.duration(owners, names::STALENESS, |_| true),
            least: Least::Pods(1),
            sub_groups: Vec::new(),
            topology: topology(|key| owner.annotation(key)),
            member: None,
            remarks: Vec::new(),
        })
    }

    /// One object, or the error that it is not there.
    pub fn read(&self, key: &Key) -> Result<Arc<Object>, GroupError> {
        self.objects.get(key).map_err(|refusal| match refusal {
            Refusal::Unread => GroupError::unread(key.clone()),
            Refusal::Absent => GroupError::new(
                Class::NotFound,
                key.to_string(),
                "",
                "it is not there",
                "create it, or wait until its controller does",
            ),
            Refusal::Forbidden => GroupError::new(
                Class::Forbidden,
                key.to_string(),
                "",
                "it may not be read",
                "allow the coordinator to read its kind",
            ),
        })
    }

    /// One object, if it is there and may be read.
    pub fn find(&self, key: &Key) -> Result<Option<Arc<Object>>, GroupError> {
        match self.read(key) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.class == Class::Unread => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// One object, if it is there. That it may not be read is an error.
    pub fn known(&self, key: &Key) -> Result<Option<Arc<Object>>, GroupError> {
        match self.read(key) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.class == Class::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pods of the pod's namespace, by their labels.
    pub fn pods(&self, labels: &[(&str, &str)]) -> Result<Vec<Arc<Object>>, GroupError> {
        let namespace = self.pod.namespace();
        let refused = |refusal| self.refused(Key::new("v1", "Pod", namespace, ""), refusal);
        self.objects.pods(namespace, labels).map_err(refused)
    }

    /// PodGroups of the pod's namespace, by how their names begin.
    pub fn pod_groups(&self, prefix: &str) -> Result<Vec<Arc<Object>>, GroupError> {
        let namespace = self.pod.namespace();
        let refused = |refusal| self.refused(Key::pod_group(namespace, ""), refusal);
        self.objects.pod_groups(namespace, prefix).map_err(refused)
    }

    fn refused(&self, key: Key, refusal: Refusal) -> GroupError {
        match refusal {
            Refusal::Unread => GroupError::unread(key),
            _ => GroupError::new(
                Class::Forbidden,
                key.to_string(),
                "",
                "they may not be listed",
                "allow the coordinator to list their kind",
            ),
        }
    }

    /// What the group says of its owner, and of who asked.
    pub fn annotations(&self, owner: &Object) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        if let Some(user) = self.pod.annotation(names::USER) {
            out.insert(names::USER.to_owned(), user.to_owned());
        }
        out.insert(names::TOP_OWNER.to_owned(), top_owner(owner));
        out.extend(owner.annotations());
        out
    }

    /// The owner's labels, and who asked.
    pub fn labels(&self, owner: &Object) -> BTreeMap<String, String> {
        let mut out = owner.labels();
        if let Some(user) = self.pod.label(names::USER) {
            out.entry(names::USER.to_owned()).or_insert_with(|| user.to_owned());
        }
        out
    }

    /// The owner's queue label, the pod's, the project's, the namespace's, or the default.
    pub fn queue(&self, owner: &Object) -> Result<String, GroupError> {
        let label = |key: &str| owner.label(key).or_else(|| self.pod.label(key));
        if let Some(queue) = label(&self.config.queue_label) {
            return Ok(queue.to_owned());
        }
        if let Some(project) = label(names::PROJECT).filter(|project| !project.is_empty()) {
            return Ok(match self.pod.label(&self.config.node_pool_label) {
                Some(pool) => format!("{project}-{pool}"),
                None => project.to_owned(),
            });
        }
        if self.config.namespace_queues {
            let namespace = self.find(&Key::new("v1", "Namespace", "", self.pod.namespace()))?;
            let queue = namespace.as_ref().and_then(|space| space.label(&self.config.queue_label));
            if let Some(queue) = queue.filter(|queue| !queue.is_empty()) {
                return Ok(queue.to_owned());
            }
        }
        Ok(self.config.default_queue.clone())
    }

    /// The priority class that one owner or the pod asks for, or the kind's, or the given one.
    pub fn priority(&self, owner: &Object, otherwise: &str) -> Result<String, GroupError> {
        self.priority_among(&[Arc::new(owner.clone())], otherwise)
    }

    fn priority_among(
        &self,
        owners: &[Arc<Object>],
        otherwise: &str,
    ) -> Result<String, GroupError> {
        let spec = self.pod.raw().pointer("/spec/priorityClassName").and_then(|name| name.as_str());
        for owner in owners {
            let label = owner.label(names::PRIORITY).or_else(|| self.pod.label(names::PRIORITY));
            let class = label.or(spec).unwrap_or_default();
            if self.class_exists(class)? {
                return Ok(class.to_owned());
            }
        }
        let Some(defaults) = self.defaults()? else { return Ok(otherwise.to_owned()) };
        for owner in owners {
            if let Some(kind) = defaults.of(owner)
                && self.class_exists(&kind.priority)?
            {
                return Ok(kind.priority.clone());
            }
        }
        Ok(otherwise.to_owned())
    }

    fn preemptibility(&self, owners: &[Arc<Object>]) -> Result<String, GroupError> {
        let all = owners.iter().map(AsRef::as_ref).chain([self.pod]);
        let asked = all.filter_map(|object| object.label(names::PREEMPTIBILITY));
        if let Some(word) = asked.into_iter().find(|word| is_preemptibility(word)) {
            return Ok(word.to_owned());
        }
        let Some(defaults) = self.defaults()? else { return Ok(String::new()) };
        let words = owners.iter().filter_map(|owner| defaults.of(owner));
        let words = words.map(|kind| kind.preemptibility.to_lowercase());
        let mut words = words.filter(|word| !word.is_empty() && is_preemptibility(word));
        Ok(words.next().unwrap_or_default())
    }

    /// The first that is a duration as it must be, on the owners and then on the pod.
    fn duration(
        &self,
        owners: &[Arc<Object>],
        key: &str,
        fits: fn(SignedDuration) -> bool,
    ) -> Option<String> {
        let all = owners.iter().map(AsRef::as_ref).chain([self.pod]);
        let mut read = all.filter_map(|object| duration::parse(object.annotation(key)?).ok());
        read.find(|span| fits(*span)).map(duration::print)
    }

    /// What kinds get, by configuration; nothing if it is not there or cannot be read.
    pub fn defaults(&self) -> Result<Option<Defaults>, GroupError> {
        let Some((namespace, name)) = &self.config.defaults else {
            return Ok(Some(Defaults::default()));
        };
        let config_map = self.find(&Key::new("v1", "ConfigMap", namespace, name))?;
        Ok(config_map.and_then(|config_map| Defaults::read(&config_map)))
    }

    /// What is said of a priority class that is asked for and does not exist; `given` is the one that the group gets.
    pub fn missing_class(&self, owner: &Object, given: &str) -> Result<Option<String>, GroupError> {
        let on_owner = owner.label(names::PRIORITY).map(|class| (owner, class));
        let asked = on_owner.or_else(|| Some((self.pod, self.pod.label(names::PRIORITY)?)));
        let Some((object, class)) = asked.filter(|(_, class)| !class.is_empty()) else {
            return Ok(None);
        };
        if class == given || self.class_exists(class)? {
            return Ok(None);
        }
        Ok(Some(format!(
            "{}: metadata.labels[{}]: there is no PriorityClass {class}, and the group gets {given}; create the class, or name another",
            object.shown(),
            names::PRIORITY,
        )))
    }

    /// Whether there is such a priority class.
    pub fn class_exists(&self, class: &str) -> Result<bool, GroupError> {
        if class.is_empty() {
            return Ok(false);
        }
        let key = Key::new("scheduling.k8s.io/v1", "PriorityClass", "", class);
        Ok(self.find(&key)?.is_some())
    }
}

/// Whether it is one of the words, or says: by priority.
pub fn is_preemptibility(word: &str) -> bool {
    matches!(word, "" | "preemptible" | "non-preemptible")
}

/// What annotations say of the topology.
pub fn topology<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Topology {
    let word = |key: &str| annotation(key).unwrap_or_default().to_owned();
    Topology {
        topology: word(names::TOPOLOGY),
        required: word(names::TOPOLOGY_REQUIRED),
        preferred: word(names::TOPOLOGY_PREFERRED),
    }
}

fn top_owner(owner: &Object) -> String {
    let (group, version) = owner.group_and_version();
    let fields = [
        ("name", owner.name()),
        ("uid", owner.uid()),
        ("group", group),
        ("version", version),
        ("kind", owner.kind()),
    ];
    fields.map(|(key, value)| format!("{key}: {}\n", yaml::scalar(value))).concat()
}
