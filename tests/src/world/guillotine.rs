//! Ends a coordinator at a chosen write: just before the API server hears of it, or just after it was done and before
//! the answer is seen.
//!
//! All coordinators of a world go through one guillotine. It counts what they write into one namespace; reads, watches,
//! Leases, token reviews, certificates and Events are not counted. Whoever sends the chosen write hears nothing more, and none
//! of its writes arrives any more; [`Guillotine::fallen`] says who it was, and the test kills it.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// On which side of a write it falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The API server never hears of the write.
    Before,
    /// The write is done; who sent it never knows.
    After,
}

/// Counts writes, and ends whoever sends the chosen one.
#[derive(Debug)]
pub struct Guillotine {
    /// What paths have that are counted: `/namespaces/default/`.
    place: String,
    /// Whether only what is made right there is counted.
    made_there: bool,
    fell: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writers: usize,
    chosen: Option<(usize, Side)>,
    writes: Vec<String>,
    fallen: Option<usize>,
    dead: BTreeSet<usize>,
}

enum Fate {
    Pass,
    Before,
    After,
}

// === impl Guillotine ===

impl Guillotine {
    /// One that counts writes into this namespace.
    pub fn new(namespace: &str) -> Arc<Self> {
        Self::at(format!("/namespaces/{namespace}/"), false)
    }

    /// One that counts pods that are made in this namespace, and nothing else.
    pub fn of_pods(namespace: &str) -> Arc<Self> {
        Self::at(format!("/namespaces/{namespace}/pods"), true)
    }

    fn at(place: String, made_there: bool) -> Arc<Self> {
        Arc::new(Self { place, made_there, fell: Notify::new(), state: Mutex::default() })
    }

    /// Counts from the beginning, and falls at this write, the first being 1.
    pub fn arm(&self, chosen: Option<(usize, Side)>) {
        let mut state = self.state.lock();
        state.writes.clear();
        state.chosen = chosen;
    }

    /// The writes since it was armed: verb and path.
    pub fn writes(&self) -> Vec<String> {
        self.state.lock().writes.clone()
    }

    /// Who is to be killed now; said once.
    pub fn fallen(&self) -> Option<usize> {
        self.state.lock().fallen.take()
    }

    /// The same, when somebody is to be killed.
    pub async fn falls(&self) -> usize {
        loop {
            if let Some(fallen) = self.fallen() {
                return fallen;
            }
            self.fell.notified().await;
        }
    }

    /// The next client's number, from 0, and the client.
    pub fn client(self: &Arc<Self>, client: Client) -> (usize, Client) {
        let mut state = self.state.lock();
        let writer = state.writers;
        state.writers += 1;
        let own = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service =
            tower::service_fn(move |request| own.clone().pass(writer, client.clone(), request));
        (writer, Client::new(service, namespace))
    }

    async fn pass(
        self: Arc<Self>,
        writer: usize,
        client: Client,
        request: Request<Body>,
    ) -> kube::Result<Response<Body>> {
        match self.judge(writer, &request) {
            Fate::Pass => client.send(request).await,
            Fate::Before => std::future::pending().await,
            Fate::After => {
                let _unseen = client.send(request).await;
                self.state.lock().fall(writer);
                self.fell.notify_one();
                std::future::pending().await
            }
        }
    }

    fn judge(&self, writer: usize, request: &Request<Body>) -> Fate {
        if request.method() == Method::GET {
            return Fate::Pass;
        }
        let mut state = self.state.lock();
        if state.dead.contains(&writer) {
            return Fate::Before;
        }
        let path = request.uri().path();
        let counted = match self.made_there {
            true => request.method() == Method::POST && path.ends_with(&self.place),
            false => path.contains(&self.place) && !path.contains("/events"),
        };
        if !counted {
            return Fate::Pass;
        }
        let write = format!("{} {path}", request.method());
        state.writes.push(write);
        match state.chosen {
            Some((chosen, side)) if chosen == state.writes.len() => {
                state.chosen = None;
                match side {
                    Side::Before => {
                        state.fall(writer);
                        self.fell.notify_one();
                        Fate::Before
                    }
                    Side::After => Fate::After,
                }
            }
            _ => Fate::Pass,
        }
    }
}

// === impl State ===

impl State {
    fn fall(&mut self, writer: usize) {
        self.dead.insert(writer);
        self.fallen = Some(writer);
    }
}
