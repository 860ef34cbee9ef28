//! Watch: an endless answer, one line per change.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::Stream;
use http::Response;
use muster_kube::{FieldError, FieldErrorKind};
use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::read;
use crate::api::{Api, Call};
use crate::kinds::Kind;
use crate::represent::{self, Form};
use crate::store::{Change, Filter, Object, Snapshot, Subscription, within};
use crate::table;

/// How often a watcher hears where the store stands.
const BOOKMARK_EVERY: Duration = Duration::from_secs(10);
/// Lines that wait are sent together, up to this size.
const CHUNK: usize = 64 * 1024;

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One open watch.
struct Watch {
    api: Arc<Api>,
    kind: Arc<Kind>,
    form: Form,
    include_object: String,
    /// Tables name their columns once.
    headed: bool,
    filter: Filter,
    /// Lines to send before anything else.
    first: VecDeque<Bytes>,
    changes: mpsc::Receiver<Arc<Change>>,
    lagged: Arc<std::sync::atomic::AtomicBool>,
    bookmarks: bool,
    tick: Timer,
    /// Bookmarks come this often; for a short watch, once before it ends.
    every: Duration,
    end: Timer,
    done: bool,
}

/// Opens a watch on a collection, or on one object.
pub fn watch(api: &Arc<Api>, call: &Call) -> Result<Response<Body>, Status> {
    let filter = read::filter(call)?;
    let query = &call.query;
    let initial = initial_events(call)?;
    let asked = read::revision(&query.resource_version).map_err(|status| {
        // A watch words this differently from a list.
        let message = status.message.trim_start_matches("invalid resource version: ");
        Status::new(500, "", message)
    })?;
    let resource = &call.kind.resource;
    let (objects, subscription) = if initial || (asked == 0 && query.initial_events.is_none()) {
        let (objects, subscription) = api.store.snapshot_and_subscribe(resource, filter.clone());
        (Some(objects), subscription)
    } else {
        let since = if asked == 0 { api.store.revision() } else { asked };
        let subscription = api.store.subscribe(resource, since, filter.clone());
        match subscription {
            Ok(subscription) => (None, subscription),
            // As upstream: the watch opens, and its only event says why it ends.
            Err(gone) => {
                let status = read::compacted(asked, gone).to_value();
                return Ok(represent::send(200, encode("ERROR", &status)));
            }
        }
    };
    let Subscription { replay, changes, revision, lagged } = subscription;
    let clock = &api.clock;
    let end: Timer = match query.timeout_seconds {
        Some(seconds) => Box::pin(clock.sleep(Duration::from_secs(seconds))),
        None => Box::pin(std::future::pending()),
    };
    let mut watch = Watch {
        api: api.clone(),
        kind: call.kind.clone(),
        form: call.representation.form,
        include_object: query.include_object.clone(),
        headed: false,
        filter,
        first: VecDeque::new(),
        changes,
        lagged,
        bookmarks: query.bookmarks,
        tick: Box::pin(std::future::pending()),
        every: bookmark_interval(query.timeout_seconds),
        end,
        done: false,
    };
    watch.wind_up();
    if let Some(objects) = objects {
        watch.show(&objects, call.path.namespace.as_deref());
    }
    for change in replay {
        let line = watch.line(&change);
        watch.first.extend(line);
    }
    if initial {
        let bookmark = watch.bookmark(revision, true);
        watch.first.push_back(bookmark);
    }
    let mut response = Response::new(Body::from_stream(watch.into_stream()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

/// Whether the watch begins with all objects and says when they are through.
fn initial_events(call: &Call) -> Result<bool, Status> {
    let query = &call.query;
    let forbidden =
        |detail: &str| FieldError::new(FieldErrorKind::Forbidden, "resourceVersionMatch", detail);
    let errors = match (query.initial_events, query.resource_version_match.as_str()) {
        (None, "") => return Ok(false),
        (Some(wanted), "NotOlderThan") => return Ok(wanted),
        (None, _) => vec![forbidden(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )],
        (Some(_), "") => vec![forbidden(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )],
        (Some(_), other) => vec![
            forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
            FieldError::with_value(
                FieldErrorKind::NotSupported,
                "resourceVersionMatch",
                &json!(other),
                "supported values: \"NotOlderThan\"",
            ),
        ],
    };
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
}

// === impl Watch ===

impl Watch {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        futures::stream::unfold(self, |mut watch| async move {
            watch.next().await.map(|chunk| (Ok(chunk), watch))
        })
    }

    /// The next lines, together. `None`: the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(line) = self.first.pop_front() {
            return Some(self.join(line));
        }
        while !self.done {
            let stop = self.api.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                // Before the changes: writers that never rest must not keep it open.
                () = &mut self.end => {
                    self.done = true;
                    return None;
                }
                () = &mut self.tick => {
                    self.wind_up();
                    if self.bookmarks && let Some(lines) = self.catch_up() {
                        return Some(lines);
                    }
                }
                change = self.changes.recv() => match change {
                    Some(change) => if let Some(line) = self.line(&change) {
                        return Some(self.join(line));
                    },
                    None => {
                        self.done = true;
                        return self.lagged.load(Ordering::Relaxed).then(|| self.too_slow());
                    }
                },
            }
        }
        None
    }

    fn wind_up(&mut self) {
        self.tick = Box::pin(self.api.clock.sleep(self.every));
    }

    /// Appends to `line` whatever waits already.
    fn join(&mut self, line: Bytes) -> Bytes {
        let mut out: Vec<u8> = Vec::new();
        while out.len() + line.len() < CHUNK {
            let more = match self.first.pop_front() {
                Some(more) => Some(more),
                None => match self.changes.try_recv() {
                    Ok(change) => self.line(&change),
                    Err(_) => break,
                },
            };
            if let Some(more) = more {
                if out.is_empty() {
                    out.extend_from_slice(&line);
                }
                out.extend_from_slice(&more);
            }
        }
        if out.is_empty() { line } else { out.into() }
    }

    /// What waits, then a bookmark: changes are pushed under the lock that gives the revision, so none
    /// before it can come later. A watch that was cut off gets none: it has missed changes.
    fn catch_up(&mut self) -> Option<Bytes> {
        let revision = self.api.store.revision();
        let mut out = Vec::new();
        loop {
            match self.changes.try_recv() {
                Ok(change) => {
                    out.extend_from_slice(&self.line(&change).unwrap_or_default());
                }
                Err(mpsc::error::TryRecvError::Empty) => {
                    out.extend_from_slice(&self.bookmark(revision, false));
                    break;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => break,
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn show(&mut self, objects: &Snapshot, namespace: Option<&str>) {
        for (_, object) in within(objects, namespace) {
            if self.filter.matches(object) {
                let line = self.event("ADDED", object);
                self.first.push_back(line);
            }
        }
    }

    /// The change as this watcher sees it: what starts to match is added, what stops is deleted.
    fn line(&mut self, change: &Change) -> Option<Bytes> {
        let matched = change.before.as_ref().is_some_and(|o| self.filter.matches(o));
        let matches = change.after.as_ref().is_some_and(|o| self.filter.matches(o));
        match (matched, matches, &change.before, &change.after) {
            (false, true, _, Some(after)) => Some(self.event("ADDED", after)),
            (true, true, _, Some(after)) => Some(self.event("MODIFIED", after)),
            (true, false, _, None) => change.last.as_ref().map(|last| self.event("DELETED", last)),
            (true, false, Some(before), Some(_)) => {
                let mut gone = before.value.clone();
                let revision = json!(change.revision.to_string());
                meta::edit(&mut gone).insert("resourceVersion".into(), revision);
                Some(self.event("DELETED", &Object::unstored(gone)))
            }
            _ => None,
        }
    }

    fn event(&mut self, type_: &str, object: &Object) -> Bytes {
        let kind = &*self.kind;
        if self.form == Form::Whole && represent::is_verbatim(kind, object) {
            let opening = kind.opening();
            let mut out = Vec::with_capacity(object.bare.len() + opening.len() + 40);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(type_.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            out.extend_from_slice(opening.as_bytes());
            out.extend_from_slice(object.bare.get(1..).unwrap_or(b"}"));
            out.extend_from_slice(b"}\n");
            return out.into();
        }
        let value = match self.form {
            Form::Whole => represent::typed(kind, &object.value),
            Form::Metadata => represent::metadata_only(&object.value),
            Form::Table => {
                let metadata =
                    json!({"resourceVersion": meta::text(&object.value, "resourceVersion")});
                let mut table =
                    table::of(kind, &[&object.value], Some(&metadata), &self.include_object);
                if std::mem::replace(&mut self.headed, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        encode(type_, &value)
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            _ => {
                json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
        };
        encode("BOOKMARK", &object)
    }

    fn too_slow(&self) -> Bytes {
        let status = Status::expired("the watch was too slow: list again and watch from there");
        encode("ERROR", &status.to_value())
    }
}

/// Every ten seconds; for a watch that ends sooner, two seconds before its end.
fn bookmark_interval(timeout_seconds: Option<u64>) -> Duration {
    match timeout_seconds {
        Some(seconds) if seconds < 12 => Duration::from_secs(seconds.saturating_sub(2).max(1)),
        _ => BOOKMARK_EVERY,
    }
}

fn encode(type_: &str, object: &Value) -> Bytes {
    let mut out = json!({"type": type_, "object": object}).to_string().into_bytes();
    out.push(b'\n');
    out.into()
}
