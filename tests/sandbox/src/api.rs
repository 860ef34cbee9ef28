//! The API server: a request goes in, an answer comes out.
//!
//! ```text
//! request ─▶ who? (auth) ─▶ what? (request, kinds) ─▶ may they? (auth) ─▶ faults ─▶ verb ─▶ store
//! ```
//!
//! [`Api::serve`] is the whole server; HTTP (`listen.rs`) and in-process clients (`service.rs`) both call it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Response, header};
use http_body_util::BodyExt;
use muster_objects::rbac::Attributes;
use muster_objects::status::Status;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use crate::admit::Admission;
use crate::auth::{Auth, User};
use crate::clock::Clock;
use crate::discovery;
use crate::faults::{Fault, Faults};
use crate::kinds::{Kind, Kinds};
use crate::kubelet::Logs;
use crate::represent::{self, Representation};
use crate::request::{Path, Query};
use crate::store::Store;
use crate::{sub, verb};

/// Bodies over this are refused, as upstream does.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// How much of a refused body is read and thrown away before the connection is given up.
const DRAIN_LIMIT: usize = 32 * 1024 * 1024;

/// How long to wait for more of a body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The same, once the body is refused.
const DRAIN_PATIENCE: Duration = Duration::from_millis(500);

/// The server's parts.
#[derive(Debug)]
pub struct Api {
    /// The stored objects.
    pub store: Arc<Store>,
    /// What is served.
    pub kinds: Arc<Kinds>,
    /// The clock that all timestamps come from.
    pub clock: Clock,
    /// Who may do what.
    pub auth: Auth,
    /// Webhooks, policies and compiled-in plugins.
    pub admission: Admission,
    /// What shall go wrong.
    pub faults: Faults,
    /// Container logs of the simulated nodes, once there are any.
    pub logs: RwLock<Option<Logs>>,
    /// Custom resources whose controllers run here.
    pub hosted: BTreeSet<String>,
    /// Held while a CustomResourceDefinition changes what is served.
    pub definitions: Mutex<()>,
    /// Ends all watches when the server stops.
    pub stop: CancellationToken,
}

/// One request to one resource, understood and allowed.
#[derive(Debug)]
pub struct Call {
    /// The resource that the path names.
    pub kind: Arc<Kind>,
    /// The parsed path.
    pub path: Path,
    /// The parsed query.
    pub query: Query,
    /// The caller, authenticated.
    pub user: User,
    /// The HTTP method.
    pub method: Method,
    /// How the answer shall look.
    pub representation: Representation,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The request's body.
    pub body: Bytes,
}

// === impl Call ===

impl Call {
    /// The namespace, empty for cluster-scoped resources.
    pub fn namespace(&self) -> &str {
        self.path.namespace.as_deref().unwrap_or("")
    }

    /// The object's name, empty for collections.
    pub fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or("")
    }

    /// Who writes: the `fieldManager` option, or the user agent up to the slash.
    pub fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        let name = agent.and_then(|a| a.split('/').next()).unwrap_or("");
        let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    /// The media type of the body, without parameters.
    pub fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        value.unwrap_or("").split(';').next().unwrap_or("").trim()
    }

    /// What the authoriser calls this request.
    pub fn verb(&self) -> &'static str {
        let collection = self.path.name.is_none();
        match self.method {
            Method::GET if self.query.watch => "watch",
            Method::GET if collection => "list",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            _ => "",
        }
    }
}

// === impl Api ===

impl Api {
    /// Answers one request. Never fails: what goes wrong is a `Status`.
    pub async fn serve<B>(self: &Arc<Self>, request: http::Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match self.answer(request).await {
            Ok(response) => response,
            Err(status) => represent::refuse(&status),
        }
    }

    async fn answer<B>(
        self: &Arc<Self>,
        request: http::Request<B>,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        refuse_web_pages(&head.headers)?;
        let url = head.uri.path().to_owned();
        let user = self.auth.authenticate(&head.headers, &self.store)?;
        let Some(path) = Path::parse(&url) else {
            return self.document(&user, &head.method, &url, &head.headers);
        };
        let mut query = Query::parse(head.uri.query().unwrap_or(""))?;
        query.watch |= Path::is_old_watch(&url);
        let kinds = self.kinds.now();
        let kind = match kinds.get(&path.group, &path.version, &path.plural) {
            Some(kind) => kind,
            None if kinds.serves(&path.group, &path.version) => return Err(Status::no_route()),
            None => return Ok(represent::page_not_found()),
        };
        let representation = Representation::from_accept(&head.headers)?;
        let mut call = Call {
            kind,
            path,
            query,
            user,
            method: head.method,
            representation,
            headers: head.headers,
            body: Bytes::new(),
        };
        self.authorize(&call, call.verb())?;
        self.suffer(&call).await?;
        if call.kind.namespaced != call.path.namespace.is_some() && !across_namespaces(&call) {
            return Ok(represent::page_not_found());
        }
        call.body = read(&call.headers, body).await?;
        let deprecation = call.kind.custom.as_ref().and_then(|custom| custom.deprecation.clone());
        let mut answer = self.dispatch(call).await;
        if let (Ok(response), Some(warning)) = (&mut answer, deprecation) {
            represent::warn(response, &[warning]);
        }
        answer
    }

    /// Whether who sent a request may use this verb on what it names.
    pub fn authorize(&self, call: &Call, verb: &str) -> Result<(), Status> {
        let fields = equalities(&call.query.fields);
        // Who lists or watches one object by its name needs rights on that one only.
        let one = fields.iter().find(|(field, value)| {
            call.method == Method::GET && field == "metadata.name" && !value.contains(['/', '%'])
        });
        let name = call.path.name.as_deref().or(one.map(|(_, value)| value.as_str()));
        let attributes = Attributes {
            verb,
            group: &call.path.group,
            resource: &call.path.plural,
            subresource: &call.path.subresource,
            name: name.unwrap_or(""),
            namespace: call.namespace(),
            fields: &fields,
            ..Attributes::default()
        };
        self.auth.authorize(&call.user, &attributes, &self.store)
    }

    /// Lets go wrong what a test asked for.
    async fn suffer(&self, call: &Call) -> Result<(), Status> {
        for fault in self.faults.draw(call.verb(), &call.kind.resource) {
            match fault {
                Fault::Latency(wait) => self.clock.sleep(wait).await,
                Fault::Answer(status) => return Err(status),
                Fault::DropWatches => self.store.drop_watches(Some(&call.kind.resource)),
                Fault::Compact => self.store.compact(),
            }
        }
        Ok(())
    }

    async fn dispatch(self: &Arc<Self>, call: Call) -> Result<Response<Body>, Status> {
        if call.kind.review {
            return match call.method {
                Method::POST => sub::review::answer(self, &call),
                _ => Err(Status::method_not_allowed()),
            };
        }
        let named = call.path.name.is_some();
        match (&call.method, named, call.path.subresource.as_str()) {
            (&Method::GET, false, _) if call.query.watch => verb::watch::watch(self, &call),
            (&Method::GET, true, "") if call.query.watch => verb::watch::watch(self, &call),
            (&Method::GET, false, _) => verb::read::list(self, &call),
            (&Method::GET, true, "") => verb::read::get(self, &call),
            (&Method::POST, false, _) => verb::create::create(self, &call).await,
            (&Method::PUT | &Method::PATCH, true, "") => verb::update::update(self, &call).await,
            (&Method::DELETE, true, "") => verb::delete::delete(self, &call).await,
            (&Method::DELETE, false, _) => verb::delete::delete_collection(self, &call).await,
            (_, true, subresource) if !subresource.is_empty() => sub::call(self, &call).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// What is not a resource: discovery, health, version.
    fn document(
        &self,
        user: &User,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Status> {
        let verb = method.as_str().to_lowercase();
        let attributes = Attributes { verb: &verb, path, ..Attributes::default() };
        self.auth.authorize(user, &attributes, &self.store)?;
        if method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        discovery::document(&self.kinds.now(), path, headers)
    }
}

/// Browsers say where a page comes from. No page has business here, and without credentials in open mode
/// one could otherwise create objects.
fn refuse_web_pages(headers: &HeaderMap) -> Result<(), Status> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Status::new(403, "Forbidden", "requests from web pages are refused"));
    }
    Ok(())
}

/// The field selector's `a=b` parts, for the authoriser.
fn equalities(selector: &str) -> Vec<(String, String)> {
    selector
        .split(',')
        .filter(|part| !part.contains("!="))
        .filter_map(|part| part.split_once('='))
        .map(|(field, value)| (field.to_owned(), value.trim_start_matches('=').to_owned()))
        .collect()
}

/// Lists, watches and (with another name for it) reviews may span namespaces.
fn across_namespaces(call: &Call) -> bool {
    call.kind.namespaced && call.path.name.is_none() && call.method == Method::GET
}

async fn read<B>(headers: &HeaderMap, body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let mut out = BytesMut::with_capacity(length.unwrap_or(0).min(BODY_LIMIT));
    let mut body = std::pin::pin!(body);
    let mut dropped = usize::from(length.is_some_and(|length: usize| length > BODY_LIMIT));
    loop {
        // A body that is refused already is waited for only as long as it flows.
        let wait = if dropped == 0 { BODY_PATIENCE } else { DRAIN_PATIENCE };
        let frame = match tokio::time::timeout(wait, body.frame()).await {
            Ok(Some(frame)) => frame,
            Err(_) if dropped == 0 => {
                return Err(Status::bad_request(
                    "the body did not arrive in time: nothing came for 30 s",
                ));
            }
            Ok(None) | Err(_) => break,
        };
        let frame = frame.map_err(|error| {
            Status::bad_request(format!("the body could not be read: {}", error.into()))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if out.len() + data.len() <= BODY_LIMIT && dropped == 0 {
            out.extend_from_slice(&data);
            continue;
        }
        // Reading on for a while lets the client hear the refusal instead of a broken pipe.
        dropped += data.len();
        if dropped > DRAIN_LIMIT {
            break;
        }
    }
    if dropped > 0 { Err(Status::too_large(BODY_LIMIT)) } else { Ok(out.freeze()) }
}
