//! All ModelServings, and who is to hear of what.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kube::core::ObjectMeta;
use muster_modelserving::api;
use muster_modelserving::shape::Shape;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::{Change, Feed};
use super::keep::{Keeper, sleep_until};
use super::known::{Thing, serving_of};
use super::pokes::Pokes;
use super::{Key, Outlets, Sources};

/// How long a ModelServing rests whose task has died.
const BROKEN: Duration = Duration::from_secs(30);

/// A namespace and a name in it.
type Place = (String, String);

/// All ModelServings.
struct Desk {
    sources: Sources,
    outlets: Outlets,
    stop: CancellationToken,
    pokes: HashMap<Key, Pokes>,
    tasks: JoinSet<bool>,
    /// Whose each task is.
    keys: HashMap<tokio::task::Id, Key>,
    /// Those whose task has died: when they are tried again.
    broken: Vec<(Instant, Key)>,
    /// The ModelServing of each thing, by its place.
    owners: HashMap<(Thing, Place), String>,
    /// The things of each ModelServing, by its place.
    things: HashMap<Place, HashSet<(Thing, String)>>,
}

/// Looks after all ModelServings until it is stopped, or until this coordinator does not lead any more.
pub async fn run(sources: Sources, outlets: Outlets, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.ready() => {}
    }
    let mut feed = Feed::new(&sources);
    let term = stop.child_token();
    let speaking = tokio::spawn(outlets.voice.clone().run(term.clone()));
    let mut desk = Desk {
        sources,
        outlets,
        stop: term.clone(),
        pokes: HashMap::new(),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
        broken: Vec::new(),
        owners: HashMap::new(),
        things: HashMap::new(),
    };
    desk.everything();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            change = feed.next() => match change {
                Some(change) => desk.take(change),
                None => break,
            },
            Some(ended) = desk.tasks.join_next_with_id() => {
                let (id, may_write) = match ended {
                    Ok((id, may_write)) => (id, Some(may_write)),
                    Err(error) => (error.id(), None),
                };
                match (desk.keys.remove(&id), may_write) {
                    (_, Some(false)) => break,
                    (Some(key), Some(true)) => desk.ended(&key),
                    (Some(key), None) => desk.died(key),
                    (None, _) => {}
                }
            },
            () = sleep_until(desk.broken.iter().map(|(at, _)| *at).min()) => desk.retry(),
        }
        for change in feed.more() {
            desk.take(change);
        }
    }
    // Whatever is being written ends before another begins.
    term.cancel();
    while desk.tasks.join_next().await.is_some() {}
    let _said = speaking.await;
    desk.outlets.metrics.servings.set(0);
    desk.outlets.shown.clear();
}

// === impl Desk ===

impl Desk {
    fn take(&mut self, change: Change) {
        match change {
            Change::Serving(namespace, name) => {
                for shape in Shape::ALL {
                    let (namespace, name) = (namespace.clone(), name.clone());
                    self.serving(Key { shape, namespace, name });
                }
            }
            Change::Thing(thing, namespace, name) => self.thing(thing, (namespace, name)),
            Change::Record(namespace, name) => self.record(&namespace, &name),
            Change::Surroundings => {
                for pokes in self.pokes.values() {
                    pokes.poke(|pending| pending.plan = true);
                }
            }
            Change::All => self.everything(),
        }
    }

    /// Something was missed.
    fn everything(&mut self) {
        let sources = self.sources.clone();
        let place = |metadata: &ObjectMeta| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            (part(&metadata.namespace), part(&metadata.name))
        };
        let mut things: HashSet<(Thing, Place)> = self.owners.keys().cloned().collect();
        things.extend(sources.pods.all().iter().map(|it| (Thing::Pod, place(&it.metadata))));
        things
            .extend(sources.services.all().iter().map(|it| (Thing::Service, place(&it.metadata))));
        let groups = sources.pod_groups.all();
        things.extend(groups.iter().map(|it| (Thing::PodGroup, place(&it.metadata))));
        let revisions = sources.revisions.all();
        things.extend(revisions.iter().map(|it| (Thing::Revision, place(&it.metadata))));
        for (thing, place) in things {
            self.thing(thing, place);
        }
        let mut keys: HashSet<Key> = self.pokes.keys().cloned().collect();
        let key = |shape, (namespace, name)| Key { shape, namespace, name };
        let all = sources.kthena.all();
        keys.extend(all.iter().map(|it| key(Shape::Kthena, place(&it.0.metadata))));
        let all = sources.seed.all();
        keys.extend(all.iter().map(|it| key(Shape::Seed, place(&it.0.metadata))));
        for key in keys {
            self.serving(key);
        }
    }

    /// A ModelServing has come, changed or gone.
    fn serving(&mut self, key: Key) {
        let known = self.pokes.get(&key);
        match (known, self.sources.written(&key)) {
            (Some(pokes), _) => pokes.poke(|_| {}),
            (None, Some(written)) => {
                let pokes = Pokes::default();
                let place = (key.namespace.clone(), key.name.clone());
                let things = self.things.get(&place).cloned().unwrap_or_default();
                pokes.poke(|pending| pending.things.extend(things));
                self.pokes.insert(key.clone(), pokes.clone());
                self.outlets.metrics.servings.inc();
                let (sources, outlets) = (self.sources.clone(), self.outlets.clone());
                let stop = self.stop.clone();
                let keeper = Keeper::new(key.clone(), written, sources, outlets, stop);
                let task = self.tasks.spawn(keeper.run(pokes));
                self.keys.insert(task.id(), key);
            }
            (None, None) => {}
        }
    }

    /// A task has ended: its ModelServing was gone, and may be there again.
    fn ended(&mut self, key: &Key) {
        if self.pokes.remove(key).is_some() {
            self.outlets.metrics.servings.dec();
            self.outlets.shown.remove(key);
        }
        self.serving(key.clone());
    }

    /// A task has died: one bad object must not stop the others, nor take all our time.
    fn died(&mut self, key: Key) {
        tracing::error!(serving = %key, reason = "internal", "the task of a ModelServing has ended unexpectedly");
        let reason = super::metrics::Reason { reason: "internal" };
        self.outlets.metrics.errors.get_or_create(&reason).inc();
        self.broken.push((Instant::now() + BROKEN, key));
    }

    /// Tries those again whose task has died some time ago.
    fn retry(&mut self) {
        let now = Instant::now();
        let (due, later) = self.broken.drain(..).partition(|(at, _)| *at <= now);
        self.broken = later;
        let due: Vec<(Instant, Key)> = due;
        for (_, key) in due {
            self.ended(&key);
        }
    }

    /// Something has come, changed or gone.
    fn thing(&mut self, thing: Thing, place: Place) {
        let (namespace, name) = (&place.0, &place.1);
        let of = |metadata: &ObjectMeta| serving_of(metadata).cloned();
        let sources = &self.sources;
        let now = match thing {
            Thing::Pod => sources.pods.named(namespace, name).and_then(|it| of(&it.metadata)),
            Thing::Service => {
                sources.services.named(namespace, name).and_then(|it| of(&it.metadata))
            }
            Thing::PodGroup => {
                sources.pod_groups.named(namespace, name).and_then(|it| of(&it.metadata))
            }
            Thing::Revision => {
                sources.revisions.named(namespace, name).and_then(|it| of(&it.metadata))
            }
        };
        let at = (thing, place.clone());
        let before = match &now {
            Some(serving) => self.owners.insert(at, serving.clone()),
            None => self.owners.remove(&at),
        };
        let (namespace, name) = place;
        if let Some(before) = &before
            && let Some(things) = self.things.get_mut(&(namespace.clone(), before.clone()))
            && now.as_ref() != Some(before)
        {
            things.remove(&(thing, name.clone()));
            if things.is_empty() {
                self.things.remove(&(namespace.clone(), before.clone()));
            }
        }
        if let Some(now) = &now {
            let things = self.things.entry((namespace.clone(), now.clone())).or_default();
            things.insert((thing, name.clone()));
        }
        let servings: HashSet<String> = before.into_iter().chain(now).collect();
        for serving in servings {
            for shape in Shape::ALL {
                let key = Key { shape, namespace: namespace.clone(), name: serving.clone() };
                if let Some(pokes) = self.pokes.get(&key) {
                    pokes.poke(|pending| pending.things.extend([(thing, name.clone())]));
                }
            }
        }
    }

    /// A record of a rank table has come, changed or gone: its owner says how its tables are.
    fn record(&mut self, namespace: &str, name: &str) {
        let Some(record) = self.sources.records.named(namespace, name) else { return };
        let owners = record.metadata.owner_references.iter().flatten();
        for owner in owners.filter(|owner| owner.kind == api::KIND) {
            let Some(shape) = Shape::of(&owner.api_version) else { continue };
            let (namespace, name) = (namespace.to_owned(), owner.name.clone());
            if let Some(pokes) = self.pokes.get(&Key { shape, namespace, name }) {
                pokes.poke(|_| {});
            }
        }
    }
}
