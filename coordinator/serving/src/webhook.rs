//! Webhooks: one HTTPS server for all kinds.
//!
//! ```text
//!   API server ──TLS──▶ server ──bytes──▶ review ──request──▶ handler ──Answer──▶ review ──▶ API server
//!                         └── limits: connections and requests of each source, time, size; wrong method, type, path
//! ```
//!
//! A handler is a pure function: what it is asked is all that it knows. An inquirer may read other objects first. Every
//! coordinator serves, also one that does not lead. That the API server believes this server is `configure`'s work, which the leader does.

mod bodies;
pub mod configure;
pub mod metrics;
pub mod review;
pub mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use json_patch::Patch;
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use muster_program::connections::Connections;

use metrics::Metrics;
use server::WebhookSettings;

/// What the API server asks.
pub type Request = AdmissionRequest<DynamicObject>;

/// Answers what the API server asks.
pub type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// Answers after it has read other objects.
pub type Inquirer = Arc<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>;

/// How a path is answered.
#[derive(Clone)]
pub enum Answerer {
    /// By a pure function.
    Handler(Handler),
    /// After it has read something.
    Inquirer(Inquirer),
}

/// What a handler says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// As it is.
    Allow {
        /// For whoever has sent the object.
        warnings: Vec<String>,
    },
    /// With these changes.
    Patch {
        /// The changes, as a JSON patch.
        patch: Patch,
        /// For whoever has sent the object.
        warnings: Vec<String>,
    },
    /// The object is refused.
    Deny {
        /// An HTTP status, such as 403 or 422.
        code: u16,
        /// Why, and what to do about it.
        message: String,
    },
}

/// Who answers what, by path. Copies share handlers and counts.
#[derive(Clone)]
pub struct Webhooks {
    handlers: BTreeMap<String, Answerer>,
    metrics: Metrics,
    settings: WebhookSettings,
    connections: Connections,
}

// === impl Answer ===

impl Answer {
    /// As it is, without a word.
    pub fn allow() -> Self {
        Self::Allow { warnings: Vec::new() }
    }

    /// What it is called in metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Allow { .. } => "allowed",
            Self::Patch { .. } => "patched",
            Self::Deny { .. } => "denied",
        }
    }
}

// === impl Webhooks ===

impl Webhooks {
    /// A server without webhooks.
    pub fn new() -> Self {
        let settings = WebhookSettings::default();
        let connections = Connections::new(settings.connections);
        let metrics = Metrics { closed_connections: connections.closed(), ..Metrics::default() };
        Self { handlers: BTreeMap::new(), metrics, settings, connections }
    }

    /// Asks this handler what is asked at this path.
    #[must_use]
    pub fn on(
        mut self,
        path: &str,
        handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(path.to_owned(), Answerer::Handler(Arc::new(handler)));
        self
    }

    /// The same, where something has to be read first.
    #[must_use]
    pub fn inquiring<F>(
        mut self,
        path: &str,
        inquirer: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let inquirer = move |request: Request| inquirer(request).boxed();
        self.handlers.insert(path.to_owned(), Answerer::Inquirer(Arc::new(inquirer)));
        self
    }

    /// With other limits.
    #[must_use]
    pub fn limited(self, settings: WebhookSettings) -> Self {
        let connections = Connections::new(settings.connections);
        let metrics = Metrics { closed_connections: connections.closed(), ..self.metrics };
        Self { settings, connections, metrics, ..self }
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.handlers.keys().collect();
        f.debug_struct("Webhooks").field("paths", &paths).finish_non_exhaustive()
    }
}
