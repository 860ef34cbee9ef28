//! One request, from bytes to bytes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::Body as _;
use muster_dijob::server::answer::{Body as Said, Refusal};
use muster_dijob::server::trust::Subject;
use muster_dijob::server::{self, About, Answer, Begun, Route, Trust, View};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::DiServer;
use super::admit::Caller;
use super::forward::Unheard;
use super::handed::{Content, HEADER, PURPOSE, Proofs, UnprovenError};
use super::view::Seen;
use crate::workloads::Key;
use muster_runtime::election::Leadership;
use muster_runtime::locks::Locked;
use muster_runtime::writer::Writer;
use muster_serving::body::{self, Unread};

/// No body is larger.
pub(super) const LARGEST_BODY: usize = 1024 * 1024;

/// Larger bodies are few: only reports of very many pods are. So many of them are held at once.
const LARGE_BODY: u64 = 64 * 1024;
pub(super) const MOST_LARGE_BODIES: usize = 64;

/// How long a request waits for somebody to lead.
const NOBODY: Duration = Duration::from_secs(20);

/// A leader that cannot be reached is tried again after this.
const AGAIN: Duration = Duration::from_millis(100);

/// A request whose body has been read.
pub(super) struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: Bytes,
    /// Who asks.
    pub caller: Caller,
    /// By another coordinator.
    pub handed: bool,
    /// Its proof of that.
    proof: Option<u128>,
    /// Room for a large body.
    _room: Option<OwnedSemaphorePermit>,
}

// === impl Asked ===

impl Asked {
    pub(super) fn request(&self) -> server::Request<'_> {
        let Self { method, path, query, body, .. } = self;
        server::Request { method, path, query, body }
    }

    pub(super) fn content(&self) -> Content<'_> {
        let Self { method, path, query, body, .. } = self;
        let token = self.caller.token.as_deref().unwrap_or_default();
        Content { method, path, query, token, body }
    }
}

// === impl DiServer ===

impl DiServer {
    /// The answer to a request.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Body>, peer: IpAddr) -> Response {
        let since = Instant::now();
        let route = Route::of(request.method().as_str(), request.uri().path());
        let answer = self.clone().said(route, request, peer).await;
        self.metrics.answered(word(route), answer.status, since.elapsed());
        response(answer)
    }

    async fn said(self: Arc<Self>, route: Route, request: Request<Body>, peer: IpAddr) -> Answer {
        match route {
            Route::Health => return Answer::plain(200, ""),
            Route::Unknown if request.uri().path() == "/readyz" => return self.readiness(),
            Route::Unknown => return Answer::plain(404, "404 page not found\n"),
            Route::NotImplemented => return Answer::not_implemented(request.method().as_str()),
            Route::Query | Route::Create | Route::Delete | Route::Failed => {}
        }
        let asked = match self.read(request, peer).await {
            Ok(asked) => asked,
            Err(refusal) => return refused(route, refusal),
        };
        if !self.caches.is_ready() {
            return refused(route, unavailable("the caches are not filled yet: try again"));
        }
        let until = Instant::now() + NOBODY;
        let writer = loop {
            let leader = match self.led(until).await {
                None => return refused(route, unavailable("no coordinator leads: try again")),
                Some(Leadership::Leading(fence)) => break Writer::new(self.client.clone(), fence),
                Some(Leadership::Standby { .. }) if asked.handed => {
                    return refused(
                        route,
                        unavailable("this coordinator does not lead: try again"),
                    );
                }
                Some(Leadership::Standby { leader }) => leader.unwrap_or_default(),
            };
            match self.forward(&leader, &asked).await {
                Ok(answer) => return answer,
                // It may have died a moment ago: soon another one leads, perhaps we.
                Err(Unheard::Undone(_)) if Instant::now() < until => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(Unheard::Undone(why) | Unheard::Lost(why)) => {
                    return refused(route, unavailable(why));
                }
            }
        };
        // Whoever hangs up does not stop what is half done, which would be worse: it is finished, and nothing else is begun.
        let gone = CancellationToken::new();
        let _hangs_up = gone.clone().drop_guard();
        let work = tokio::spawn(async move { self.work(route, &asked, writer, &gone).await });
        match work.await {
            Ok(answer) => answer,
            // This coordinator ends; another one goes on.
            Err(ended) if ended.is_cancelled() => {
                refused(route, unavailable("this coordinator ends: try again"))
            }
            Err(_) => refused(
                route,
                Refusal::error(
                    "the server failed at this request; the coordinator's log says more",
                ),
            ),
        }
    }

    fn readiness(&self) -> Answer {
        match self.caches.is_ready() {
            true => Answer::plain(200, "ok\n"),
            false => Answer::plain(503, "the caches are not filled yet\n"),
        }
    }

    async fn read(&self, request: Request<Body>, peer: IpAddr) -> Result<Asked, Refusal> {
        let (parts, body) = request.into_parts();
        let is_large = body.size_hint().upper().is_none_or(|bytes| bytes > LARGE_BODY);
        let room = match is_large.then(|| Arc::clone(&self.large_bodies).acquire_owned()) {
            None => None,
            Some(room) => match timeout(self.settings.patience, room).await {
                Ok(Ok(room)) => Some(room),
                _ => return Err(unavailable("too many large requests at once: try again")),
            },
        };
        let collected = timeout(self.settings.patience, body::read(body, LARGEST_BODY));
        let undecodable = |why: &str| Refusal::bad(format!("failed to decode request body: {why}"));
        let body = match collected.await {
            Ok(Ok(body)) => body,
            Ok(Err(Unread::TooLarge)) => return Err(undecodable("it is larger than 1 MiB")),
            Ok(Err(Unread::Broken(error))) => return Err(undecodable(&error.to_string())),
            Err(_) => return Err(undecodable("it did not come in time")),
        };
        let mut asked = Asked {
            handed: false,
            proof: None,
            caller: Caller { source: peer, token: bearer(&parts.headers) },
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body,
            _room: room,
        };
        if let Some(header) = parts.headers.get(HEADER) {
            asked.handed = true;
            if self.settings.trust != Trust::Anyone {
                // A coordinator of another version, or one that has not seen a new authority, asks again until it is right.
                let (source, proof) = self.believe(header, &asked).map_err(|error| {
                    unavailable(format!("{peer} is not believed about its caller: {error}"))
                })?;
                (asked.caller.source, asked.proof) = (source, Some(proof));
            }
        }
        Ok(asked)
    }

    /// The address that a coordinator says its caller has.
    fn believe(
        &self,
        header: &HeaderValue,
        asked: &Asked,
    ) -> Result<(IpAddr, u128), UnprovenError> {
        let header = header.to_str().map_err(|_| UnprovenError::Missing)?;
        let key = self.certificates.shared_secret(PURPOSE).ok_or(UnprovenError::Wrong)?;
        let now = jiff::Timestamp::now();
        Proofs::caller(header, &key, &asked.content(), now)
    }

    /// The right to write, if it comes back to us in time.
    pub(super) async fn regained(&self, until: Instant) -> Option<Writer> {
        let mut leadership = self.leadership.clone();
        let leads = leadership.wait_for(|leadership| match leadership {
            Leadership::Leading(fence) => fence.left().is_ok(),
            Leadership::Standby { .. } => false,
        });
        let found = timeout_at(until, leads).await.ok()?.ok()?.clone();
        match found {
            Leadership::Leading(fence) => Some(Writer::new(self.client.clone(), fence)),
            Leadership::Standby { .. } => None,
        }
    }

    /// Who leads, when somebody does.
    async fn led(&self, until: Instant) -> Option<Leadership> {
        let mut leadership = self.leadership.clone();
        let known = leadership.wait_for(|leadership| match leadership {
            Leadership::Leading(fence) => fence.left().is_ok(),
            Leadership::Standby { leader } => leader.is_some(),
        });
        let found = timeout_at(until, known).await;
        found.ok()?.ok().map(|leadership| leadership.clone())
    }

    async fn work(
        &self,
        route: Route,
        asked: &Asked,
        writer: Writer,
        gone: &CancellationToken,
    ) -> Answer {
        let until = Instant::now() + self.settings.longest;
        let begun = gone.run_until_cancelled(self.begin(route, asked, &writer, until)).await;
        match begun.unwrap_or_else(|| Err(unavailable("the caller has left"))) {
            Err(refusal) => refused(route, refusal),
            Ok((Begun::Answer(answer), _)) => answer,
            Ok((Begun::Work(work), _locked)) => {
                let id = uuid::Uuid::new_v4().simple().to_string();
                self.perform(writer, work.marked(&id), &id, (until, gone)).await
            }
        }
    }

    /// Begins with a request, if it counts. The job is locked until its work is done.
    async fn begin(
        &self,
        route: Route,
        asked: &Asked,
        writer: &Writer,
        until: Instant,
    ) -> Result<(Begun, Vec<Locked<Key>>), Refusal> {
        let late = |_| unavailable("the API server did not answer in time: try again");
        let (request, mut granted) = (asked.request(), Vec::new());
        // Strangers make us ask nobody for what they name.
        let (known, subject) = (Seen::cached(self), Subject::of(&request));
        let who = (&asked.caller, (route, &subject));
        timeout_at(until, self.admit(writer, &known, who, &mut granted)).await.map_err(late)??;
        let about = match &subject {
            Subject::Pods(about) => Some(about),
            _ => None,
        };
        let seen = timeout_at(until, Seen::of(self, writer, about)).await.map_err(late)?;
        let seen = seen.map_err(|error| unavailable(format!("{error}: try again")))?;
        let jobs = match about {
            Some(about) if route.writes() => jobs_of(&seen, about),
            _ => BTreeSet::new(),
        };
        let locked = timeout_at(until, self.locks.lock_all(jobs)).await;
        let locked = locked
            .map_err(|_| unavailable("other requests of this job took too long: try again"))?;
        // What the API server has added may be of another job.
        timeout_at(until, self.admit(writer, &seen, who, &mut granted)).await.map_err(late)??;
        if let Some(proof) = asked.proof.filter(|_| route.writes()) {
            self.proofs.spend(proof).map_err(|error| unavailable(error.to_string()))?;
        }
        Ok((server::begin(&seen, &self.jobs.make, &request, rand::random()), locked))
    }
}

/// The jobs that a request is about; requests of one job come one after the other.
fn jobs_of(seen: &impl View, about: &About) -> BTreeSet<Key> {
    let job = |name: &muster_kube::Name| {
        let pod = seen.pod(&about.namespace, name)?;
        Some(Key::new(about.namespace.as_str(), &pod.job()?.name))
    };
    about.pods.iter().filter_map(job).collect()
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

pub(super) fn unavailable(why: impl Into<String>) -> Refusal {
    Refusal { status: 503, message: why.into(), data: None }
}

fn refused(route: Route, refusal: Refusal) -> Answer {
    match route {
        Route::Query => refusal.answer_to_query(),
        _ => refusal.answer(),
    }
}

fn response(answer: Answer) -> Response {
    let (kind, body) = match answer.body {
        Said::Json(body) => ("application/json", body.to_string()),
        Said::Text(text) => ("text/plain; charset=utf-8", text),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn word(route: Route) -> &'static str {
    match route {
        Route::Query => "query",
        Route::Create => "create",
        Route::Delete => "delete",
        Route::Failed => "failed",
        Route::NotImplemented => "not-implemented",
        Route::Health => "health",
        Route::Unknown => "other",
    }
}
