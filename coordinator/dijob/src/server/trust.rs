//! Whose requests count: those of the job's own pods, and those of users that may.
//!
//! ```text
//!   request, source address ──▶ judge ──▶ Admitted
//!                                 │
//!                                 └─────▶ NeedsToken ── of a user with this right ──▶ Admitted
//!                                             └── pods whose address nobody knows yet: judge again when it is known
//! ```
//!
//! Stock DI-engine sends no credentials. What it cannot choose is the address that its requests come from.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use muster_kube::{Name, Namespace};

use super::answer::Refusal;
use super::query::Query;
use super::view::View;
use super::{About, Request, Route, about};
use crate::api;
use crate::names;
use crate::pod::Pod;

/// Whose requests count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those from the address of a pod of the job, and those with the token of a user that has the right.
    #[default]
    PodsAndTokens,
    /// Everybody's, as with the DI orchestrator.
    Anyone,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The job of these pods of a namespace.
    Pods(About),
    /// All jobs of a namespace.
    Namespace(Namespace),
    /// All jobs.
    All,
    /// It cannot be read or names no namespace, and is answered with what is wrong with it.
    Nothing,
}

/// A right on the subresource `dijobs/replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    /// `create`, `delete`, `get` or `list`.
    pub verb: &'static str,
    /// In this namespace; in all without one.
    pub namespace: Option<Namespace>,
    /// On this job; on all of the namespace without one.
    pub job: Option<Name>,
}

/// What is to become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Admitted,
    /// It counts if its token is that of a user with this right.
    NeedsToken {
        /// The right.
        right: Right,
        /// The job, if it has pods whose address is not known yet. The caller may be one of them.
        unsure: Option<(Namespace, String)>,
    },
}

/// What became of a request's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// There is none.
    Missing,
    /// It proves nothing, and why.
    Invalid(String),
    /// This user has no such right.
    Forbidden(String),
}

/// Decides it, of a request about this that comes from this address.
pub fn judge(
    view: &impl View,
    trust: Trust,
    (route, subject): (Route, &Subject),
    source: IpAddr,
) -> Verdict {
    if trust == Trust::Anyone {
        return Verdict::Admitted;
    }
    let needs = |verb, namespace, job, unsure| Verdict::NeedsToken {
        right: Right { verb, namespace, job },
        unsure,
    };
    let about = match subject {
        Subject::Nothing => return Verdict::Admitted,
        Subject::All => return needs("list", None, None, None),
        Subject::Namespace(namespace) => {
            return needs("list", Some(namespace.clone()), None, None);
        }
        Subject::Pods(about) => about,
    };
    let verb = match route {
        Route::Create | Route::Failed => "create",
        Route::Delete => "delete",
        _ => "get",
    };
    let namespace = about.namespace.clone();
    // Whoever names pods of several jobs, or of none, must be allowed all jobs of the namespace.
    let Some((job, uid)) = the_job(view, about) else {
        return needs(verb, Some(namespace), None, None);
    };
    let pods = view.pods_of(&namespace, &job);
    let mut own = pods.iter().filter(|pod| is_of(pod, &uid) && has_an_address_of_its_own(pod));
    let is_caller = |pod: &&Arc<Pod>| pod.addresses().any(|address| address == source);
    if may_be_a_pod(source) {
        if own.clone().any(|pod| is_caller(&pod)) {
            return Verdict::Admitted;
        }
        if own.any(|pod| pod.is_on_a_node() && pod.addresses().next().is_none()) {
            let name = Name::parse(&job).ok();
            return needs(verb, Some(namespace.clone()), name, Some((namespace, job)));
        }
    }
    needs(verb, Some(namespace), Name::parse(&job).ok(), None)
}

/// Whether a pod with a network of its own can have this address.
pub fn may_be_a_pod(source: IpAddr) -> bool {
    let local = match source {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(local || source.is_loopback() || source.is_unspecified() || source.is_multicast())
}

/// Name and uid of the job that all of these pods are of, as far as they are known.
fn the_job(view: &impl View, about: &About) -> Option<(String, String)> {
    let job = |name: &Name| {
        let pod = view.pod(&about.namespace, name)?;
        let owner = pod.job()?;
        Some((owner.name.clone(), owner.uid.clone()))
    };
    let mut jobs: BTreeSet<(String, String)> = about.pods.iter().filter_map(job).collect();
    let first = jobs.pop_first()?;
    jobs.is_empty().then_some(first)
}

fn is_of(pod: &Pod, job: &str) -> bool {
    pod.job().is_some_and(|owner| owner.uid == job)
}

/// The address of a pod that has ended may be another's by now, and that of a pod in the node's network is everybody's there.
fn has_an_address_of_its_own(pod: &Pod) -> bool {
    !pod.has_ended() && !pod.is_in_the_nodes_network()
}

// === impl Subject ===

impl Subject {
    /// What a request is about.
    pub fn of(request: &Request<'_>) -> Self {
        if let Some(about) = about(request) {
            return Self::Pods(about);
        }
        if Route::of(request.method, request.path) != Route::Query {
            return Self::Nothing;
        }
        match Query::read(request.query) {
            Ok(Query { namespace: None, .. }) => Self::All,
            Ok(Query {
                namespace: Some(namespace),
                coordinator: None,
                aggregator: None,
                name: None,
            }) => Namespace::parse(&namespace).map_or(Self::Nothing, Self::Namespace),
            _ => Self::Nothing,
        }
    }
}

// === impl Right ===

impl Right {
    /// What a request without this right is answered. Nothing in it tells a stranger what is there.
    pub fn refusal(&self, source: IpAddr, error: &TokenError) -> Refusal {
        let place = match &self.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in all namespaces".to_owned(),
        };
        let (verb, group, audience) = (self.verb, api::GROUP, names::AUDIENCE);
        let right = format!("{verb} {}/{} of {group} {place}", names::JOBS, names::REPLICAS);
        let (status, message) = match error {
            TokenError::Missing => (
                401,
                format!(
                    "{source} is not the address of a pod of this job, and the request has no token: call from a pod of \
                     the job, or with a bearer token for the audience {audience} of a user that may {right}"
                ),
            ),
            TokenError::Invalid(why) => (
                401,
                format!("the token is refused: {why}; one for the audience {audience} is needed"),
            ),
            TokenError::Forbidden(user) => {
                (403, format!("{user} may not {right}: a Role that allows it is needed"))
            }
        };
        Refusal { status, message, data: None }
    }
}
