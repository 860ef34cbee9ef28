//! The garbage collector: objects whose owners are gone go too.
//!
//! ```text
//! metadata watch of every resource -> graph of owners -> look at one object -> ask, delete, unlink
//! ```
//!
//! An owner that the graph does not have is asked for before anything is deleted: watches of
//! different kinds do not arrive in order.

use std::sync::Arc;
use std::time::Duration;

use muster_objects::meta;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::cache::revision;
use super::inventory::Inventory;
use super::kind::Kind;
use super::queue::Queue;
use super::rest::{Rest, ignore_missing, status_code};
use graph::{GarbageVerdict, Graph, Node, Owner, OwnerState};

mod graph;

pub(crate) struct Collector {
    rest: Rest,
    inventory: Arc<Inventory>,
    graph: Mutex<Graph>,
    queue: Arc<Queue<String>>,
}

/// Why an object could not be dealt with yet.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{api_version} {kind} is not a resource of this server")]
    UnknownKind { api_version: String, kind: String },
    #[error("{0} has changed since it was judged")]
    Changed(String),
}

const WORKERS: usize = 8;
/// When to look again at an object whose owner exists but is not in the graph yet.
const CATCH_UP: Duration = Duration::from_millis(300);

// === impl Collector ===

impl Collector {
    /// Registers with all caches and starts the workers.
    pub fn start(rest: &Rest, inventory: &Arc<Inventory>) {
        let collector = Arc::new(Self {
            rest: rest.clone(),
            inventory: inventory.clone(),
            graph: Mutex::default(),
            queue: Queue::new(rest.tasks().clone(), rest.clock().clone()),
        });
        let to = collector.clone();
        inventory.on_resource(move |cache| {
            let (to, kind) = (to.clone(), cache.kind().clone());
            cache.on_change(move |before, after| to.changed(&kind, before, after));
        });
        let started = collector;
        rest.tasks().spawn(async move {
            started.inventory.ready().await;
            let queue = started.queue.clone();
            queue.serve(WORKERS, "gc", move |uid| {
                let collector = started.clone();
                async move { collector.look_at(&uid).await }
            });
        });
    }

    fn changed(&self, kind: &Kind, before: Option<&Arc<Value>>, after: Option<&Arc<Value>>) {
        let look = self.graph.lock().change(kind, before, after);
        for uid in look {
            self.queue.add(uid);
        }
    }

    async fn look_at(self: &Arc<Self>, uid: &str) -> Result<(), Error> {
        let Some(node) = self.graph.lock().node(uid).cloned() else { return Ok(()) };
        if graph::orphans_dependents(&node.object) {
            return self.orphan(&node).await;
        }
        if graph::waits_for_dependents(&node.object) {
            return self.delete_blockers(&node).await;
        }
        let mut owners = Vec::new();
        for owner in graph::owners(&node.object) {
            let standing = self.graph.lock().standing(&node.object, &owner);
            let standing = match standing {
                OwnerState::Unknown => self.ask(&node, &owner).await?,
                known => known,
            };
            owners.push((owner, standing));
        }
        let verdict = self.graph.lock().verdict(&node.object, &owners);
        if verdict == GarbageVerdict::Keep {
            return Ok(());
        }
        let Some(live) = self.confirm(&node).await? else { return Ok(()) };
        match verdict {
            GarbageVerdict::Keep => Ok(()),
            GarbageVerdict::Delete(how) => {
                Ok(self.rest.delete_as_is(&live.kind, &live.object, how).await?)
            }
            GarbageVerdict::Unlink(gone) => self.unlink(&live, &gone).await,
        }
    }

    /// The object as the server has it, if it still is what was judged; none if it is gone.
    async fn confirm(&self, judged: &Node) -> Result<Option<Node>, Error> {
        let (namespace, name) = (meta::namespace(&judged.object), meta::name(&judged.object));
        let live = match self.rest.get(&judged.kind, namespace, name).await {
            Err(error) if status_code(&error) == 404 => return Ok(None),
            live => live?,
        };
        if meta::uid(&live) != meta::uid(&judged.object) {
            return Ok(None);
        }
        if !graph::judged_alike(&live, &judged.object) {
            self.rest.note(&judged.kind, &live);
            return Err(Error::Changed(format!("{} {namespace}/{name}", judged.kind.plural)));
        }
        Ok(Some(Node { kind: judged.kind.clone(), object: Arc::new(live) }))
    }

    /// Makes sure that the graph has all that was there when the owner began to go.
    async fn catch_up(&self, owner: &Node) -> Result<(), Error> {
        self.inventory.ready().await;
        let since = revision(&owner.object);
        for cache in self.inventory.caches() {
            self.rest.catch_up(&cache, since).await?;
        }
        Ok(())
    }

    /// Asks the server for an owner that the graph does not have.
    async fn ask(self: &Arc<Self>, node: &Node, owner: &Owner) -> Result<OwnerState, Error> {
        let kind = self.inventory.by_reference(&owner.api_version, &owner.kind);
        let Some(kind) = kind else {
            return Err(Error::UnknownKind {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
            });
        };
        let namespace = meta::namespace(&node.object);
        if kind.namespaced && namespace.is_empty() {
            // A cluster object cannot be owned from within a namespace.
            return Ok(OwnerState::Absent);
        }
        match self.rest.get(&kind, namespace, &owner.name).await {
            Ok(live) if meta::uid(&live) == owner.uid => {
                self.queue.add_soon(meta::uid(&node.object).to_owned(), CATCH_UP);
                Ok(match graph::waits_for_dependents(&live) {
                    true => OwnerState::Waiting,
                    false => OwnerState::Solid,
                })
            }
            Ok(_) => Ok(OwnerState::Absent),
            Err(error) if status_code(&error) == 404 => Ok(OwnerState::Absent),
            Err(error) => Err(error.into()),
        }
    }

    async fn unlink(&self, node: &Node, gone: &[String]) -> Result<(), Error> {
        let left: Vec<&Value> = meta::owners(&node.object)
            .iter()
            .filter(|owner| !gone.iter().any(|uid| *uid == super::json::text(owner, "/uid")))
            .collect();
        self.set_owners(node, json!(left)).await
    }

    async fn orphan(&self, owner: &Node) -> Result<(), Error> {
        self.catch_up(owner).await?;
        let uid = meta::uid(&owner.object).to_owned();
        let dependents = self.graph.lock().dependents(&uid);
        for dependent in dependents {
            self.unlink(&dependent, std::slice::from_ref(&uid)).await?;
        }
        Ok(self.rest.drop_finalizer(&owner.kind, &owner.object, graph::ORPHAN).await?)
    }

    async fn delete_blockers(&self, owner: &Node) -> Result<(), Error> {
        let uid = meta::uid(&owner.object);
        if self.graph.lock().blockers(uid).is_empty() {
            self.catch_up(owner).await?;
        }
        let (dependents, blockers, ring) = {
            let graph = self.graph.lock();
            (graph.dependents(uid), graph.blockers(uid), graph.ring(uid))
        };
        // Those that do not block go as well; nobody waits for them.
        for dependent in dependents {
            if !meta::is_terminating(&dependent.object) {
                self.queue.add(meta::uid(&dependent.object).to_owned());
            }
        }
        if blockers.is_empty() {
            let finalizer = graph::FOREGROUND;
            return Ok(self.rest.drop_finalizer(&owner.kind, &owner.object, finalizer).await?);
        }
        for member in ring {
            self.unblock(&member, uid).await?;
        }
        Ok(())
    }

    /// Lets an owner go before this dependent.
    async fn unblock(&self, dependent: &Node, owner: &str) -> Result<(), Error> {
        let mut references = meta::owners(&dependent.object).to_vec();
        for reference in &mut references {
            if super::json::text(reference, "/uid") == owner {
                reference["blockOwnerDeletion"] = false.into();
            }
        }
        self.set_owners(dependent, json!(references)).await
    }

    async fn set_owners(&self, dependent: &Node, references: Value) -> Result<(), Error> {
        let object = &dependent.object;
        let patch = json!({"metadata": {
            "uid": meta::uid(object),
            "resourceVersion": meta::text(object, "resourceVersion"),
            "ownerReferences": references,
        }});
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        let outcome = self.rest.patch_merge(&dependent.kind, namespace, name, "", &patch).await;
        Ok(ignore_missing(outcome)?)
    }
}
