//! A webhook on a socket with a certificate of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};

/// What a webhook answers to a request: code, content type and body.
pub(super) type Answer = (u16, &'static str, String);

pub(super) struct Webhook {
    pub(super) address: SocketAddr,
    pub(super) ca: String,
    pub(super) seen: Arc<Mutex<Vec<Value>>>,
    pub(super) connections: Arc<AtomicUsize>,
}

impl Webhook {
    /// Serves under these names; `answer` gets the AdmissionRequest.
    pub(super) async fn start(
        names: &[&str],
        answer: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let issued = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let webhook = Self {
            address: listener.local_addr().unwrap(),
            ca: STANDARD.encode(issued.cert.pem()),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let (seen, connections) = (webhook.seen.clone(), webhook.connections.clone());
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, answer) = (acceptor.clone(), seen.clone(), answer.clone());
                let connections = connections.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    connections.fetch_add(1, Ordering::SeqCst);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (seen, answer) = (seen.clone(), answer.clone());
                        async move {
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let (code, kind, text) = answer(&review["request"]);
                            seen.lock().unwrap().push(review);
                            let response =
                                Response::builder().status(code).header("content-type", kind);
                            Ok::<_, std::convert::Infallible>(
                                response.body(Full::new(Bytes::from(text))).unwrap(),
                            )
                        }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        webhook
    }
}

/// An answer with this `response`; the uid is filled in.
pub(super) fn respond(request: &Value, mut response: Value) -> Answer {
    if response.get("uid").is_none() {
        response["uid"] = request["uid"].clone();
    }
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    (200, "application/json", review.to_string())
}

pub(super) fn patch(request: &Value, operations: &Value) -> Answer {
    let patch = STANDARD.encode(operations.to_string());
    respond(request, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}
