//! All ModelServings, and who is to hear of what.

use std::collections::{HashMap, HashSet};

use kube::core::ObjectMeta;
use muster_modelserving::api;
use muster_modelserving::shape::Shape;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::feed::{Change, Feed};
use super::keep::Keeper;
use super::known::{Thing, serving_of};
use super::pokes::Pokes;
use super::{Key, Outlets, Sources};

/// A namespace and a name in it.
type Place = (String, String);

/// All ModelServings.
struct Desk {
    sources: Sources,
    outlets: Outlets,
    stop: CancellationToken,
    pokes: HashMap<Key, Pokes>,
    tasks: JoinSet<(Key, bool)>,
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
    let mut desk = Desk {
        sources,
        outlets,
        stop: term.clone(),
        pokes: HashMap::new(),
        tasks: JoinSet::new(),
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
            Some(ended) = desk.tasks.join_next() => match ended {
                Ok((_, false)) => break,
                Ok((key, true)) => desk.ended(&key),
                Err(_) => {
                    tracing::error!("the task of a ModelServing has ended unexpectedly");
                    break;
                }
            },
        }
        for change in feed.more() {
            desk.take(change);
        }
    }
    // Whatever is being written ends before another begins.
    term.cancel();
    while desk.tasks.join_next().await.is_some() {}
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
            (Some(pokes), _) => pokes.poke(|pending| pending.plan = true),
            (None, Some(written)) => {
                let pokes = Pokes::default();
                let place = (key.namespace.clone(), key.name.clone());
                let things = self.things.get(&place).cloned().unwrap_or_default();
                pokes.poke(|pending| pending.things.extend(things));
                self.pokes.insert(key.clone(), pokes.clone());
                self.outlets.metrics.servings.inc();
                let (sources, outlets) = (self.sources.clone(), self.outlets.clone());
                let keeper = Keeper::new(key.clone(), written, sources, outlets);
                let stop = self.stop.clone();
                self.tasks.spawn(async move { (key, keeper.run(pokes, stop).await) });
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
