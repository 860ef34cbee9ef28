//! One pass over one pod: is it ours, who owns it, what is its group, what is to be written.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::base::Context;
use crate::config::Config;
use crate::draft::Draft;
use crate::error::{Class, GroupError};
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::{kinds, names, owners, write};

/// What is done with a pod's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Created,
    /// It says something else now.
    Updated,
    /// It is as it must be.
    Unchanged,
    /// The pod is left alone.
    Skipped(Skip),
}

/// Why a pod is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Another scheduler has it.
    Scheduler,
    /// It, or an owner, says so.
    Annotation,
    /// Nobody owns it and it names its group.
    Grouped,
    /// It names a group of another dialect.
    Foreign,
    /// It is on its way out, and so is its owner.
    Deleting,
}

/// What comes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What is done with its group.
    pub action: Action,
    /// The group, whole, as it is to be written or as it is. Nothing if the pod is left alone.
    pub pod_group: Option<Value>,
    /// What the pod is to get; nothing if it has it.
    pub pod: Option<Marks>,
}

/// Marks of a pod that belongs to a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
}

/// What a pod asks for, before it meets the group that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it is left alone.
    Nothing(Skip),
    /// This group, with this part of it as its own.
    Group(Box<Draft>),
}

/// Groups a pod. One that came out of a list and does not say its kind is taken for what it is.
///
/// # Errors
/// Why it has no group. [`Class::Unread`] names what has to be read before it can be said.
pub fn group(pod: &Object, objects: &dyn Objects, config: &Config) -> Result<Outcome, GroupError> {
    let draft = match ask(pod, objects, config)? {
        Asked::Nothing(skip) => return Ok(Outcome::skipped(skip)),
        Asked::Group(draft) => draft,
    };
    let cx = Context { pod, objects, config };
    let old = cx.known(&Key::pod_group(&draft.namespace, &draft.name))?;
    let (action, pod_group) = write::write(&draft, old.as_deref(), config);
    Ok(Outcome { action, pod_group: Some(pod_group), pod: marks(pod, &draft) })
}

/// The first half of [`group`]: what the pod and its owners ask for. Pods of one owner mostly ask for the same, so that
/// an edge can compare drafts instead of groups.
///
/// # Errors
/// Why it has no group.
pub fn ask(pod: &Object, objects: &dyn Objects, config: &Config) -> Result<Asked, GroupError> {
    let named;
    let pod = match pod.kind().is_empty() {
        true => {
            named = pod.clone().or_of_kind("v1", "Pod");
            &named
        }
        false => pod,
    };
    let cx = Context { pod, objects, config };
    if let Some(skip) = skipped(&cx) {
        return Ok(Asked::Nothing(skip));
    }
    let owners = match owners::of(&cx) {
        Ok(owners) => owners,
        Err(error) if error.class == Class::Unread => return Err(error),
        Err(_) if pod.is_deleting() => return Ok(Asked::Nothing(Skip::Deleting)),
        Err(error) => return Err(error),
    };
    if owners.chain.iter().any(|owner| says_skip(owner)) {
        return Ok(Asked::Nothing(Skip::Annotation));
    }
    let mut draft = kinds::of(&owners.top)(&cx, &owners.top, &owners.chain)?;
    if draft.name.is_empty() {
        return Err(GroupError::new(
            Class::GroupNameEmpty,
            pod.shown(),
            "metadata.labels",
            "the group of the pod would have no name",
            "give the label that names the group a value",
        ));
    }
    add_node_pool(&cx, &mut draft);
    draft.remarks.extend(cx.missing_class(&owners.top, &draft.priority_class)?);
    Ok(Asked::Group(Box::new(draft)))
}

// === impl Outcome ===

impl Outcome {
    fn skipped(skip: Skip) -> Self {
        Self { action: Action::Skipped(skip), pod_group: None, pod: None }
    }
}

// === impl Action ===

impl Action {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Skipped(_) => "skipped",
        }
    }
}

// === impl Skip ===

impl Skip {
    /// Why, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Scheduler => "another scheduler has it",
            Self::Annotation => "it or an owner asks to be left alone",
            Self::Grouped => "it names its group itself",
            Self::Foreign => "it names a group of another dialect",
            Self::Deleting => "it is on its way out",
        }
    }
}

fn skipped(cx: &Context<'_>) -> Option<Skip> {
    let pod = cx.pod;
    let scheduler = pod.raw().pointer("/spec/schedulerName").and_then(Value::as_str);
    let ours = |name: &str| cx.config.scheduler_names.iter().any(|ours| ours == name);
    if !scheduler.is_some_and(ours) {
        return Some(Skip::Scheduler);
    }
    if says_skip(pod) {
        return Some(Skip::Annotation);
    }
    if pod.annotation(names::GROUP).is_some() && pod.owners().is_empty() {
        return Some(Skip::Grouped);
    }
    let foreign = names::FOREIGN_ANNOTATIONS.iter().any(|key| pod.annotation(key).is_some())
        || names::FOREIGN_LABELS.iter().any(|key| pod.label(key).is_some());
    foreign.then_some(Skip::Foreign)
}

fn says_skip(object: &Object) -> bool {
    object.annotation(names::SKIP) == Some("true")
}

fn add_node_pool(cx: &Context<'_>, draft: &mut Draft) {
    let key = &cx.config.node_pool_label;
    if key.is_empty() {
        return;
    }
    if let Some(pool) = cx.pod.label(key) {
        draft.labels.entry(key.clone()).or_insert_with(|| pool.to_owned());
    }
}

/// What a pod is to get that belongs to this group; nothing if it has it.
pub fn marks(pod: &Object, draft: &Draft) -> Option<Marks> {
    let part = draft.member.as_deref().unwrap_or_default();
    let has_group = pod.annotation(names::GROUP) == Some(&draft.name);
    if has_group && pod.label(names::SUB_GROUP).unwrap_or_default() == part {
        return None;
    }
    let mut marks = Marks::default();
    marks.annotations.insert(names::GROUP.to_owned(), draft.name.clone());
    if !part.is_empty() {
        marks.labels.insert(names::SUB_GROUP.to_owned(), part.to_owned());
    }
    Some(marks)
}
