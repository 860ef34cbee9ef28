//! A webhook server on loopback with a CA of its own; it answers as the cases say and keeps what it was asked.

use std::{collections::HashMap, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
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
        let (config, ca) = certificates()?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
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

/// A CA, and a server configuration with a certificate for 127.0.0.1 that the CA has signed.
fn certificates() -> anyhow::Result<(ServerConfig, String)> {
    let mut ca_params = CertificateParams::new(Vec::<String>::new())?;
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca_params.distinguished_name.push(rcgen::DnType::CommonName, "behaviour CA");
    let ca_key = KeyPair::generate()?;
    let ca = ca_params.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca_params, ca_key);
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?
        .signed_by(&key, &issuer)?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], private)
        .context("webhook certificate")?;
    Ok((config, ca.pem()))
}
