//! The HTTPS client for webhooks: verified against the `caBundle`, bounded in time and size,
//! connections kept for the next call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;

/// The largest answer that is read.
const MAX_ANSWER: usize = 3 * 1024 * 1024;
/// Idle connections kept per webhook: a handshake costs more than many calls.
const MAX_IDLE: usize = 64;

type Connection = SendRequest<Full<Bytes>>;
type Key = (String, String, Vec<u8>);

#[derive(Debug, Default)]
pub(super) struct Client {
    idle: Mutex<HashMap<Key, Vec<Connection>>>,
}

// === impl Client ===

impl Client {
    /// Posts a question and reads the answer. An error reads like one of Kubernetes' own client.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        timeout: u64,
        question: &Value,
    ) -> Result<Value, String> {
        let body = Bytes::from(question.to_string());
        let exchange = self.exchange(endpoint, body);
        match tokio::time::timeout(Duration::from_secs(timeout), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(posting(endpoint, "context deadline exceeded")),
        }
    }

    async fn exchange(&self, endpoint: &Endpoint, body: Bytes) -> Result<Value, String> {
        let address = endpoint.address.clone().map_err(|why| posting(endpoint, &why))?;
        let key = (address.to_string(), endpoint.server_name.clone(), endpoint.ca.clone());
        let request = || {
            Request::builder()
                .method(Method::POST)
                .uri(&endpoint.path)
                .header(header::HOST, &endpoint.authority)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .body(Full::new(body.clone()))
                .map_err(|error| posting(endpoint, &error.to_string()))
        };
        let mut answer = None;
        while let Some(mut connection) = self.take(&key) {
            // The other side may have closed it meanwhile; then a fresh one serves.
            if connection.ready().await.is_ok()
                && let Ok(response) = connection.send_request(request()?).await
            {
                answer = Some((connection, response));
                break;
            }
        }
        let (connection, response) = match answer {
            Some(answer) => answer,
            None => {
                let mut connection =
                    connect(endpoint).await.map_err(|why| posting(endpoint, &why))?;
                let response = connection.send_request(request()?).await;
                (connection, response.map_err(|error| posting(endpoint, &error.to_string()))?)
            }
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| posting(endpoint, &error.to_string()))?.to_bytes();
        self.keep(key, connection);
        if !head.status.is_success() {
            let kind = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
            return Err(refused(head.status.as_u16(), kind.unwrap_or_default(), &body));
        }
        serde_json::from_slice(&body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    }

    fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let connections = idle.get_mut(key)?;
        let connection = connections.pop();
        if connections.is_empty() {
            idle.remove(key);
        }
        connection
    }

    fn keep(&self, key: Key, connection: Connection) {
        let mut idle = self.idle.lock();
        let connections = idle.entry(key).or_default();
        if !connection.is_closed() && connections.len() < MAX_IDLE {
            connections.push(connection);
        }
    }
}

fn posting(endpoint: &Endpoint, why: &str) -> String {
    format!("Post {:?}: {why}", endpoint.url)
}

async fn connect(endpoint: &Endpoint) -> Result<Connection, String> {
    let address = endpoint.address.clone()?;
    let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {address}: connect: connection refused")
        }
        _ => format!("dial tcp {address}: {error}"),
    })?;
    let name = ServerName::try_from(endpoint.server_name.clone()).map_err(|e| e.to_string())?;
    let connector = TlsConnector::from(Arc::new(tls(&endpoint.ca)?));
    let stream = connector.connect(name, stream).await.map_err(|error| tls_error(&error))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Ends by itself when the sender is dropped or the webhook hangs up.
    tokio::spawn(connection);
    Ok(sender)
}

fn tls(ca: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate =
            certificate.map_err(|error| format!("unable to load root certificates: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A failed handshake in the words of Go's library.
fn tls_error(error: &std::io::Error) -> String {
    const VERIFY: &str = "tls: failed to verify certificate: x509:";
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                format!("{VERIFY} certificate signed by unknown authority")
            }
            CertificateError::NotValidForNameContext { expected, presented } => format!(
                "{VERIFY} certificate is valid for {}, not {}",
                presented.iter().map(|name| bare(name)).collect::<Vec<_>>().join(", "),
                expected.to_str()
            ),
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                format!("{VERIFY} certificate has expired or is not yet valid")
            }
            other => format!("{VERIFY} {other:?}"),
        },
        Some(other) => format!("tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

/// `DnsName("a")` and the like without the wrapping.
fn bare(name: &str) -> &str {
    name.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map_or(name, |(name, _)| name)
}

/// An HTTP error in the words of Kubernetes' client.
fn refused(code: u16, content_type: &str, body: &[u8]) -> String {
    let text = match content_type.starts_with("text/") {
        true => String::from_utf8_lossy(body).trim().to_owned(),
        false => "unknown".to_owned(),
    };
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let message = status.as_ref().filter(|s| s["kind"] == "Status").map(|s| &s["message"]);
    if let Some(message) = message.and_then(Value::as_str) {
        return message.to_owned();
    }
    let known = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({text:?}) has prevented the request from succeeding"
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    known.to_owned()
}
