//! A webhook server on loopback with a CA of its own; it answers as the cases say and keeps what it was asked.

use std::{collections::HashMap, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use muster_sandbox::tls::Identity;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Mutex, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

use super::case::Reply;

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub struct Hooks {
    address: SocketAddr,
    ca: String,
    hooks: Arc<Mutex<HashMap<String, Hook>>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Hook {
    reply: Reply,
    calls: Vec<Value>,
}

// === impl Hooks ===

impl Hooks {
    /// Starts the server on a free port of loopback.
    pub async fn start() -> anyhow::Result<Hooks> {
        let identity = Identity::make(&["127.0.0.1", "localhost"])?;
        let (acceptor, ca) = (TlsAcceptor::from(identity.config), identity.authority);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let hooks: Arc<Mutex<HashMap<String, Hook>>> = Arc::default();
        let shared = hooks.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, hooks) = (acceptor.clone(), shared.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(hooks.clone(), request));
                    let builder = Builder::new(TokioExecutor::new());
                    if let Err(error) =
                        builder.serve_connection(TokioIo::new(stream), service).await
                    {
                        tracing::debug!(%error, "webhook connection");
                    }
                });
            }
        });
        Ok(Hooks { address, ca: STANDARD.encode(ca), hooks, task })
    }

    /// Where the server listens.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The CA as a `caBundle`.
    pub fn ca_bundle(&self) -> &str {
        &self.ca
    }

    /// Answers requests for `/path` with `reply` from now on.
    pub async fn serve(&self, path: &str, reply: Reply) {
        self.hooks.lock().await.insert(path.to_owned(), Hook { reply, calls: Vec::new() });
    }

    /// The admission requests that `/path` has seen.
    pub async fn calls(&self, path: &str) -> Value {
        let hooks = self.hooks.lock().await;
        hooks.get(path).map(|hook| Value::from(hook.calls.clone())).unwrap_or_default()
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    hooks: Arc<Mutex<HashMap<String, Hook>>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let bytes = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let reply = {
        let mut hooks = hooks.lock().await;
        hooks.get_mut(&path).map(|hook| {
            hook.calls.push(review["request"].clone());
            hook.reply.clone()
        })
    };
    let Some(reply) = reply else { return Ok(respond(404, "no such webhook".into())) };
    tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    let body = reply.raw.clone().unwrap_or_else(|| review_of(&review, &reply).to_string());
    Ok(respond(reply.code.unwrap_or(200), body))
}

fn respond(code: u16, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

fn review_of(review: &Value, reply: &Reply) -> Value {
    let mut response = json!({ "uid": review["request"]["uid"], "allowed": !reply.deny });
    if let Some(status) = &reply.status {
        response["status"] = status.clone();
    }
    if let Some(patch) = &reply.patch {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(patch.to_string()).into();
    }
    if !reply.warnings.is_empty() {
        response["warnings"] = reply.warnings.clone().into();
    }
    json!({ "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response })
}
