//! Puts pods into PodGroups: reads owners, writes groups, marks pods.
//!
//! ```text
//!   pod ──▶ draft (podgrouper, pure) ──▶ as written before? ──▶ member
//!             │ unread: read it, once       │ no: one lock per group, draft anew, create or replace
//!             ▼                             ▼
//!           reader (cache, shared GETs)   writer
//! ```
//!
//! Thousands of pods of one owner cost a few reads and one write. A pod is patched only if it needs a label: the
//! annotation can ride on its Binding. Nothing is kept that matters: after a crash the next one reads it all again.

pub mod cache;
mod failure;
pub mod metrics;
pub mod reader;
mod said;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{Api, DynamicObject};
use muster_podgrouper::draft::Draft;
use muster_podgrouper::group::{Asked, ask, marks};
use muster_podgrouper::write::write;
use muster_podgrouper::{Action, Class, Config, Key, Object, Refusal};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::diserver::locks::Locks;
use crate::events::Events;
use crate::voice::Voice;
use crate::write::{WriteError, Writer};
use cache::{Held, Limits, Want};
use failure::Failure;
pub use metrics::Metrics;
use reader::{Reader, Trouble};
use said::Said;
use view::{Pins, View};

/// The reason of events on pods that get no group.
pub const WARNING: &str = "PodGrouperWarning";
/// Things that one pass reads: owners, classes, groups of an owner.
const MOST_READS: usize = 512;
/// Tries to write what others write at the same time.
const TRIES: usize = 8;
/// What failed by something that was read before is tried with something newer, but not more often.
const STALE: Duration = Duration::from_secs(1);
/// A group that counts pods is looked at again after this: some may have come or gone since they were counted.
const SETTLES: Duration = Duration::from_secs(2);
/// Groups whose drafts are remembered, and groups that are looked at again.
const MOST_KNOWN: usize = 8192;

/// What came of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouped {
    /// It belongs to a group, which is there.
    Member {
        /// The group, of the pod's namespace.
        group: String,
        /// Its part of it.
        sub_group: Option<String>,
        /// Whether the pod itself says so. If not, the annotation is for its Binding; the label it never lacks.
        written: bool,
    },
    /// It is left alone: it is another scheduler's, asks for it, names its group itself, or goes.
    Skipped,
    /// It has no group.
    Failed {
        /// The word for it.
        class: &'static str,
        /// The object, the field and the remedy.
        message: String,
        /// Whether it may go better later though the pod stays as it is.
        retry: bool,
    },
}

/// Puts pods into PodGroups. Copies share it.
#[derive(Clone)]
pub struct Grouper(Arc<Inner>);

struct Inner {
    writer: Writer,
    voice: Voice,
    config: Config,
    metrics: Metrics,
    reader: Reader,
    locks: Locks,
    /// What a group was last found to be: its draft, and the version that says so.
    known: Mutex<BTreeMap<(String, String), Known>>,
    said: Mutex<Said>,
    /// Groups that are looked at again, and when.
    again: Mutex<BTreeMap<(String, String), Instant>>,
    _stop: DropGuard,
}

struct Known {
    draft: Draft,
    version: String,
}

// === impl Grouper ===

impl Grouper {
    /// Writes in the leader's name. Ends with its last copy.
    pub fn new(writer: Writer, events: Events, settings: Config, metrics: Metrics) -> Self {
        Self::limited(writer, events, settings, metrics, Limits::default())
    }

    /// With other limits of what is kept.
    pub fn limited(
        writer: Writer,
        events: Events,
        settings: Config,
        metrics: Metrics,
        limits: Limits,
    ) -> Self {
        let voice = Voice::new(events.of("pod-grouper", "Group"), metrics.dropped.clone());
        let stop = CancellationToken::new();
        tokio::spawn(voice.clone().run(stop.clone()));
        let reader = Reader::new(writer.client().clone(), limits, metrics.clone());
        Self(Arc::new(Inner {
            writer,
            voice,
            config: settings,
            metrics,
            reader,
            locks: Locks::default(),
            known: Mutex::default(),
            said: Mutex::default(),
            again: Mutex::default(),
            _stop: stop.drop_guard(),
        }))
    }

    /// Groups a pod: its group is there and right when this returns. May be asked again at any time.
    pub async fn group(&self, pod: Value) -> Grouped {
        let pod = Object::new(pod).or_of_kind("v1", "Pod");
        let done = self.0.place(&pod, Arc::downgrade(&self.0)).await;
        let mut said = self.0.said.lock();
        match done {
            Ok(grouped) => {
                said.forget(pod.uid());
                let is_member = matches!(grouped, Grouped::Member { .. });
                self.0.metrics.saw(if is_member { "grouped" } else { "skipped" });
                grouped
            }
            Err(failure) => {
                let Failure { class, message, retry, said: aloud } = failure;
                self.0.metrics.saw(class);
                if aloud && said.is_news(pod.uid(), &message) {
                    self.0.voice.warning(reference(&pod), WARNING, message.clone());
                }
                tracing::debug!(pod = pod.shown(), class, "no group: {message}");
                Grouped::Failed { class, message, retry }
            }
        }
    }

    /// A PodGroup has changed or is gone: what is remembered of it is not believed any more.
    pub fn forget(&self, namespace: &str, name: &str) {
        let want = Want::Object(Key::pod_group(namespace, name));
        self.0.reader.cache().lock().forget(&want);
    }
}

// === impl Inner ===

impl Inner {
    async fn place(&self, pod: &Object, own: Weak<Self>) -> Result<Grouped, Failure> {
        let Some((draft, listed)) = self.settle(pod).await? else { return Ok(Grouped::Skipped) };
        if listed {
            self.look_again(pod, &draft, own);
        }
        let marks = marks(pod, &draft);
        let Draft { name: group, member: sub_group, .. } = draft;
        let written = match &marks {
            None => true,
            Some(marks) if marks.labels.is_empty() => false,
            Some(marks) => {
                let change = json!({"metadata": {"uid": pod.uid(), "labels": marks.labels,
                    "annotations": marks.annotations}});
                if !self.mark(pod, &change).await? {
                    return Ok(Grouped::Skipped);
                }
                true
            }
        };
        Ok(Grouped::Member { group, sub_group, written })
    }

    /// Makes the group what the pod asks for; nothing if the pod is left alone. Also whether pods were counted.
    async fn settle(&self, pod: &Object) -> Result<Option<(Draft, bool)>, Failure> {
        let (mut reason, mut group) = ("conflict", String::new());
        for _ in 0..TRIES {
            let Some((draft, listed)) = self.draft(pod).await? else { return Ok(None) };
            if self.is_known(&draft) {
                return Ok(Some((draft, listed)));
            }
            let at = (draft.namespace.clone(), draft.name.clone());
            let _locked = self.locks.lock(at.clone()).await;
            // Somebody may have written it in the meantime, or counted more pods.
            let Some((draft, listed)) = self.draft(pod).await? else { return Ok(None) };
            if self.is_known(&draft) {
                return Ok(Some((draft, listed)));
            }
            if (&draft.namespace, &draft.name) != (&at.0, &at.1) {
                continue;
            }
            match self.write(&draft).await? {
                Ok(version) => {
                    self.learn(&draft, version);
                    return Ok(Some((draft, listed)));
                }
                Err(why) => (reason, group) = (why, draft.name),
            }
        }
        let message =
            format!("PodGroup {group}: it was written by others {TRIES} times; it is tried again");
        Err(Failure { class: reason, message, retry: true, said: false })
    }

    /// What the pod asks for. What has to be known for it is read.
    async fn draft(&self, pod: &Object) -> Result<Option<(Draft, bool)>, Failure> {
        let (cache, began) = (self.reader.cache(), Instant::now());
        let mut pins = Pins::new();
        for _ in 0..MOST_READS {
            let view = View::new(pod, &pins, cache, Instant::now());
            let error = match ask(pod, &view, &self.config) {
                Ok(Asked::Nothing(_)) => return Ok(None),
                Ok(Asked::Group(draft)) => return Ok(Some((*draft, view.has_listed()))),
                Err(error) => error,
            };
            if error.class == Class::Unread
                && let Some(want) = view.wanted()
            {
                let held = self.reader.read(want.clone()).await?;
                pins.insert(want, held);
                continue;
            }
            // It may be well by now, if something that was read before has changed since.
            let old = |read: &Instant| began.saturating_duration_since(*read) >= STALE;
            let stale: Vec<Want> = view
                .used()
                .into_iter()
                .filter_map(|(want, read)| old(&read).then_some(want))
                .collect();
            if stale.is_empty() {
                return Err(error.into());
            }
            let mut cache = cache.lock();
            stale.iter().for_each(|want| cache.forget(want));
        }
        let message =
            format!("{}: more than {MOST_READS} objects say what its group is", pod.shown());
        Err(Failure { class: "too-many-reads", message, retry: true, said: true })
    }

    /// Whether the group is known to be what the draft says.
    fn is_known(&self, draft: &Draft) -> bool {
        let at = (draft.namespace.clone(), draft.name.clone());
        let known = self.known.lock();
        let Some(known) = known.get(&at) else { return false };
        let same = known.draft.is_same_group(draft);
        same && {
            let want = Want::Object(Key::pod_group(&at.0, &at.1));
            let cache = self.reader.cache().lock();
            matches!(cache.get(&want, Instant::now()), Some((Held::Object(group), _))
                if version(group.raw()) == known.version)
        }
    }

    /// The group of this version is what the draft says.
    fn learn(&self, draft: &Draft, version: String) {
        let at = (draft.namespace.clone(), draft.name.clone());
        let mut known = self.known.lock();
        if known.len() >= MOST_KNOWN && !known.contains_key(&at) {
            known.pop_first();
        }
        known.insert(at, Known { draft: draft.clone(), version });
    }

    /// There is a group of this name.
    fn named(&self, namespace: &str, name: &str) {
        let want = Want::Groups(namespace.to_owned());
        let cache = self.reader.cache().lock();
        if let Some((Held::Groups(names), _)) = cache.get(&want, Instant::now()) {
            names.lock().known.insert(name.into());
        }
    }

    /// Writes the group if it must be; its version, or why it has to be looked at anew.
    async fn write(&self, draft: &Draft) -> Result<Result<String, &'static str>, Failure> {
        let key = Key::pod_group(&draft.namespace, &draft.name);
        let want = Want::Object(key.clone());
        let old = match self.old(&key).await? {
            Held::Object(old) => Some(old),
            Held::Refused(Refusal::Forbidden) => {
                let message =
                    format!("{key}: it may not be read; allow the coordinator to read PodGroups");
                return Err(Failure { class: "forbidden", message, retry: true, said: true });
            }
            _ => None,
        };
        let (action, object) = write(draft, old.as_deref(), &self.config);
        let verb = match action {
            Action::Created => "create",
            Action::Updated => "update",
            Action::Unchanged | Action::Skipped(_) => {
                return Ok(Ok(version(&object).to_owned()));
            }
        };
        let api = reader::groups(self.writer.client(), &key.namespace);
        let object: DynamicObject = serde_json::from_value(object).map_err(|error| Failure {
            class: "unwritable",
            message: format!("{key}: {error}; correct its owner's labels and annotations"),
            retry: true,
            said: true,
        })?;
        let written = match verb {
            "create" => self.writer.create_raw(&api, &object).await,
            _ => self.writer.replace_raw(&api, &object).await,
        };
        match written {
            Ok(group) => {
                self.metrics.wrote(verb, "PodGroup");
                tracing::info!(group = %key, verb, "a group is written");
                let mut group = serde_json::to_value(group).unwrap_or_default();
                let metadata = group.get_mut("metadata").and_then(Value::as_object_mut);
                metadata.and_then(|metadata| metadata.remove("managedFields"));
                let version = version(&group).to_owned();
                let group = Held::Object(Arc::new(Object::new(group)));
                self.reader.cache().lock().put(want, group, Instant::now());
                self.named(&key.namespace, &key.name);
                Ok(Ok(version))
            }
            Err(WriteError::Exists { .. }) => {
                self.named(&key.namespace, &key.name);
                self.reader.cache().lock().forget(&want);
                Ok(Err("exists"))
            }
            Err(WriteError::Conflict { .. }) => {
                self.reader.cache().lock().forget(&want);
                Ok(Err("conflict"))
            }
            Err(WriteError::Gone { .. }) if verb == "update" => {
                self.reader.cache().lock().forget(&want);
                Ok(Err("gone"))
            }
            Err(WriteError::Gone { .. }) => Err(Failure {
                class: "no-pod-groups",
                message: format!(
                    "{key}: the cluster does not know PodGroups, or the namespace goes; apply deploy/crds"
                ),
                retry: true,
                said: true,
            }),
            Err(error) => {
                // It may have been written all the same.
                self.named(&key.namespace, &key.name);
                self.reader.cache().lock().forget(&want);
                Err(error.into())
            }
        }
    }

    /// The group that is there. That its name is not known says that it is not.
    async fn old(&self, key: &Key) -> Result<Held, Trouble> {
        let absent = Held::Refused(Refusal::Absent);
        if let Held::Groups(names) = self.reader.known(Want::Groups(key.namespace.clone())).await? {
            let names = names.lock();
            if !names.more && !names.known.contains(key.name.as_str()) {
                return Ok(absent);
            }
        }
        self.reader.known(Want::Object(key.clone())).await
    }

    /// Marks a pod; whether it is there.
    async fn mark(&self, pod: &Object, change: &Value) -> Result<bool, Failure> {
        let api: Api<Pod> = Api::namespaced(self.writer.client().clone(), pod.namespace());
        let mut tries = 0;
        loop {
            tries += 1;
            match self.writer.merge_metadata(&api, pod.name(), change).await {
                Ok(()) => {
                    self.metrics.wrote("patch", "Pod");
                    return Ok(true);
                }
                Err(WriteError::Gone { .. }) => return Ok(false),
                Err(WriteError::Conflict { .. }) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Looks at the group once more, by this pod, when nobody has asked for a while.
    fn look_again(&self, pod: &Object, draft: &Draft, own: Weak<Self>) {
        let at = (draft.namespace.clone(), draft.name.clone());
        let due = Instant::now() + SETTLES;
        {
            let mut again = self.again.lock();
            if again.len() >= MOST_KNOWN || again.insert(at.clone(), due).is_some() {
                return;
            }
        }
        let (pod, mut next) = (pod.clone(), due);
        tokio::spawn(async move {
            let own = loop {
                tokio::time::sleep_until(next).await;
                let Some(own) = own.upgrade() else { return };
                let mut again = own.again.lock();
                match again.get(&at) {
                    Some(later) if *later > next => next = *later,
                    _ => {
                        again.remove(&at);
                        drop(again);
                        break own;
                    }
                }
            };
            if let Err(Failure { class, message, .. }) = own.settle(&pod).await {
                tracing::debug!(pod = pod.shown(), class, "it is not looked at again: {message}");
            }
        });
    }
}

fn reference(pod: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_owned()),
        ..ObjectReference::default()
    }
}

fn version(object: &Value) -> &str {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
}
