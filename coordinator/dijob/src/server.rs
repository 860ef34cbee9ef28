//! The DI server: what a job's coordinator asks, and what it is answered.
//!
//! ```text
//!   method, path, query, body ──▶ begin ──▶ Begun::Answer
//!                                   │
//!                                   └─────▶ Begun::Work ─advance─▶ a write ──done──▶ … ──▶ an answer
//! ```
//!
//! DI-engine's client dies of every status of 400 and above, sends bodies with GET and DELETE, and no Content-Type. So
//! whatever can be understood, is; and success is always 200.

pub mod answer;
mod create;
mod delete;
mod failed;
mod plan;
mod query;
pub mod request;
pub mod trust;
pub mod view;
pub mod work;

pub use answer::{Answer, Replicas};
pub use trust::Trust;
pub use view::View;
pub use work::{Next, Outcome, Work, Write};

use muster_kube::{Name, Namespace};

use crate::make::Settings;
use answer::Refusal;

/// Where replicas are asked for.
pub const REPLICAS: &str = "/v1alpha1/replicas";
/// Where failed ones are reported.
pub const FAILED: &str = "/v1alpha1/replicas/failed";

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// The body, whatever it says it is.
    pub body: &'a [u8],
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Begun {
    /// An answer at once.
    Answer(Answer),
    /// Something has to be written first.
    Work(Box<Work>),
}

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// What is there.
    Query,
    /// More.
    Create,
    /// Less.
    Delete,
    /// Others in the place of these.
    Failed,
    /// Something that these paths do not know.
    NotImplemented,
    /// Whether anybody is there.
    Health,
    /// Nothing of ours.
    Unknown,
}

// === impl Route ===

impl Route {
    /// The route of a method and a path.
    pub fn of(method: &str, path: &str) -> Self {
        match (path, method) {
            (REPLICAS, "GET") => Self::Query,
            (REPLICAS, "POST") => Self::Create,
            (REPLICAS, "DELETE") => Self::Delete,
            (FAILED, "POST") => Self::Failed,
            (REPLICAS | FAILED, _) => Self::NotImplemented,
            ("/healthz", _) => Self::Health,
            _ => Self::Unknown,
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Delete | Self::Failed)
    }
}

/// What should be looked up before a request is begun, as far as it can be read. Nothing else of a request gets into a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The namespace.
    pub namespace: Namespace,
    /// Names of pods: who asks, and whom it reports.
    pub pods: Vec<Name>,
    /// Whether the template of aggregators may be needed.
    pub aggregator: bool,
}

// === impl About ===

impl About {
    /// Pods of a namespace; those that cannot be are left out.
    fn new(
        namespace: &str,
        pods: impl IntoIterator<Item = String>,
        aggregator: bool,
    ) -> Option<Self> {
        let pods = pods.into_iter().filter_map(|name| Name::parse(&name).ok()).collect();
        Some(Self { namespace: Namespace::parse(namespace).ok()?, pods, aggregator })
    }
}

/// What a request is about.
pub fn about(request: &Request<'_>) -> Option<About> {
    let route = Route::of(request.method, request.path);
    match route {
        Route::Create | Route::Delete => {
            let asked = request::Replicas::read(request.body).ok()?;
            let aggregator = route == Route::Create && asked.learners.count() > 0;
            About::new(&asked.namespace, [asked.coordinator], aggregator)
        }
        Route::Failed => {
            let request::Failed { namespace, coordinator, collectors, learners } =
                request::Failed::read(request.body).ok()?;
            let pods = std::iter::once(coordinator).chain(collectors).chain(learners);
            About::new(&namespace, pods, false)
        }
        Route::Query => {
            let asked = query::Query::read(request.query).ok()?;
            let pod = asked.coordinator.or(asked.aggregator).or(asked.name)?;
            About::new(&asked.namespace?, [pod], false)
        }
        _ => None,
    }
}

/// Begins with a request. `seed` makes the names of pods.
pub fn begin(view: &impl View, settings: &Settings, request: &Request<'_>, seed: u64) -> Begun {
    let route = Route::of(request.method, request.path);
    let worked: Result<Work, Refusal> = match route {
        Route::Query => return Begun::Answer(query::answer(view, request.query)),
        Route::Create => create::begin(view, settings, request.body, seed),
        Route::Delete => delete::begin(view, settings, request.body, seed),
        Route::Failed => failed::begin(view, settings, request.body, seed),
        Route::NotImplemented => {
            return Begun::Answer(Answer::not_implemented(request.method));
        }
        Route::Health => return Begun::Answer(Answer::plain(200, "")),
        Route::Unknown => return Begun::Answer(Answer::plain(404, "404 page not found\n")),
    };
    match worked {
        Ok(work) => Begun::Work(Box::new(work)),
        Err(refusal) => Begun::Answer(refusal.answer()),
    }
}
