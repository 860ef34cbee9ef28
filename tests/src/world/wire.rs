//! The wire between one coordinator and the API server, to be cut, or to be slow for one write or for what is read.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// A wire. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Wire {
    cut: watch::Sender<bool>,
    /// What the path of a read has whose answer does not come.
    frozen: watch::Sender<Option<String>>,
    /// What the path of a write has that is to be held back, and what it became.
    held: Arc<Mutex<Option<Hold>>>,
}

#[derive(Debug)]
struct Hold {
    create: bool,
    path: String,
    release: watch::Receiver<bool>,
    caught: watch::Sender<bool>,
    answered: watch::Sender<Option<u16>>,
}

/// A write that is held back.
#[derive(Debug)]
pub struct Held {
    release: watch::Sender<bool>,
    caught: watch::Receiver<bool>,
    answered: watch::Receiver<Option<u16>>,
}

// === impl Wire ===

impl Wire {
    /// One that works.
    #[allow(clippy::new_without_default, reason = "a wire is made on purpose")]
    pub fn new() -> Self {
        let (cut, frozen) = (watch::Sender::new(false), watch::Sender::new(None));
        Self { cut, frozen, held: Arc::default() }
    }

    /// A client at the end of this wire.
    pub fn client(&self, client: Client) -> Client {
        let own = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| own.clone().pass(client.clone(), request));
        Client::new(service, namespace)
    }

    /// From now on nothing arrives and nothing is heard; watches end.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// It works again.
    pub fn mend(&self) {
        self.cut.send_replace(false);
    }

    /// From now on lists and watches whose path ends so say nothing more.
    pub fn freeze(&self, path: &str) {
        self.frozen.send_replace(Some(path.to_owned()));
    }

    /// They go on where they were.
    pub fn thaw(&self) {
        self.frozen.send_replace(None);
    }

    /// Holds the next server-side apply back whose path has this in it. When it is let go it is sent even if the wire is cut by
    /// then, as a packet would be that was long on its way.
    pub fn hold_apply(&self, path: &str) -> Held {
        self.hold(path, false)
    }

    /// The same for the next create.
    pub fn hold_create(&self, path: &str) -> Held {
        self.hold(path, true)
    }

    fn hold(&self, path: &str, create: bool) -> Held {
        let (release, released) = watch::channel(false);
        let (caught, is_caught) = watch::channel(false);
        let (answered, answer) = watch::channel(None);
        let hold = Hold { create, path: path.to_owned(), release: released, caught, answered };
        *self.held.lock() = Some(hold);
        Held { release, caught: is_caught, answered: answer }
    }

    async fn pass(self, client: Client, request: Request<Body>) -> anyhow::Result<Answer> {
        if let Some(hold) = self.catch(&request) {
            // Whoever waits for the answer may give up; the packet is still on its way.
            let sent = tokio::spawn(hold.send(client, request));
            return Ok(sent.await??.map(BodyExt::boxed_unsync));
        }
        let (mut cut, mut later) = (self.cut.subscribe(), self.cut.subscribe());
        let reads = request.method() == Method::GET;
        let (path, frozen) = (request.uri().path().to_owned(), self.frozen.subscribe());
        tokio::select! {
            biased;
            _cut = cut.wait_for(|cut| *cut) => anyhow::bail!("the wire is cut"),
            answer = client.send(request) => {
                let (parts, body) = answer?.into_parts();
                // A watch ends with the wire.
                let until = async move { drop(later.wait_for(|cut| *cut).await) };
                let frames = BodyStream::new(body).take_until(Box::pin(until));
                let frames = frames.then(move |frame| {
                    let (path, mut frozen) = (path.clone(), frozen.clone());
                    async move {
                        let flows = |at: &Option<String>| {
                            !reads || at.as_ref().is_none_or(|at| !path.ends_with(at))
                        };
                        drop(frozen.wait_for(flows).await);
                        frame
                    }
                });
                Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
            }
        }
    }

    fn catch(&self, request: &Request<Body>) -> Option<Hold> {
        let mut held = self.held.lock();
        let wanted = |hold: &mut Hold| {
            let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let applies = request.method() == Method::PATCH
                && kind.is_some_and(|kind| kind.contains("apply-patch"));
            let creates = request.method() == Method::POST;
            (if hold.create { creates } else { applies })
                && request.uri().path().contains(&hold.path)
        };
        held.take_if(wanted)
    }
}

// === impl Hold ===

impl Hold {
    async fn send(
        mut self,
        client: Client,
        request: Request<Body>,
    ) -> anyhow::Result<Response<Body>> {
        self.caught.send_replace(true);
        drop(self.release.wait_for(|released| *released).await);
        let answer = client.send(request).await?;
        self.answered.send_replace(Some(answer.status().as_u16()));
        Ok(answer)
    }
}

// === impl Held ===

impl Held {
    /// Waits until there is such a write.
    pub async fn caught(&mut self) -> anyhow::Result<()> {
        self.caught.wait_for(|caught| *caught).await?;
        Ok(())
    }

    /// Lets it go; the API server's answer.
    pub async fn release(mut self) -> anyhow::Result<u16> {
        self.release.send_replace(true);
        let answer = self.answered.wait_for(Option::is_some).await?;
        answer.ok_or_else(|| anyhow::anyhow!("no answer"))
    }
}
