//! The webhook server and callers of every kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use muster_program::connections::ConnectionLimits;
use muster_serving::certs::serving::{CertificateSender, certificates};
use muster_serving::certs::{ClientAuthorities, Names, remake};
use muster_serving::webhook::server::{LARGEST_BODY, WebhookSettings};
use muster_serving::webhook::{Answer, Webhooks};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::certificate::Authority;
use crate::world::{LIMIT, until};

struct Server {
    webhooks: Webhooks,
    address: SocketAddr,
    authorities: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
    _change: CertificateSender,
}

type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn review(uid: &str, name: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "operation": "CREATE", "userInfo": {},
            "object": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name } },
        },
    })
}

impl Server {
    async fn start(settings: WebhookSettings) -> Self {
        Self::start_for(settings, None).await
    }

    /// One that shakes hands with clients of these authorities alone.
    async fn start_for(settings: WebhookSettings, clients: Option<ClientAuthorities>) -> Self {
        let bundle = remake(Timestamp::now(), &Names::new(["localhost"])).unwrap();
        let (change, certificates) = certificates();
        change.serve(&bundle).unwrap();
        let webhooks = Webhooks::new().limited(settings).on("/pods", |request| {
            match request.object.as_ref().unwrap().metadata.name.as_deref() {
                Some("panic") => panic!("as told"),
                _ => Answer::Allow { warnings: vec!["hello".to_owned()] },
            }
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let alpn: [&[u8]; 2] = [b"h2", b"http/1.1"];
        let tls = match clients {
            Some(clients) => certificates.server_config_for(clients, &alpn).unwrap(),
            None => certificates.server_config(&alpn).unwrap(),
        };
        let (stop, serving) = (CancellationToken::new(), webhooks.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move { serving.serve(listener, tls, stopped).await });
        let authorities = bundle.authorities;
        Self { webhooks, address, authorities, stop, task, _change: change }
    }

    async fn connect(&self, alpn: &[u8]) -> TlsStream<TcpStream> {
        self.connect_as(alpn, None).await.unwrap()
    }

    /// Shows a certificate, or none.
    async fn connect_as(
        &self,
        alpn: &[u8],
        shown: Option<ClientCertificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authorities.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    /// Whether a request of a caller with this certificate is answered.
    async fn answers(&self, shown: Option<ClientCertificate>) -> bool {
        let exchange = async {
            let mut stream = self.connect_as(b"http/1.1", shown).await?;
            stream.write_all(b"GET /pods HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await?;
            let mut heard = Vec::new();
            // A refused handshake is heard of here, with TLS 1.3.
            let read = stream.read_to_end(&mut heard).await;
            if heard.is_empty() { read } else { Ok(heard.len()) }
        };
        let heard = tokio::time::timeout(LIMIT, exchange).await.expect("an end");
        heard.is_ok_and(|bytes| bytes > 0)
    }

    async fn send(
        &self,
        is_http2: bool,
        request: Request<Full<Bytes>>,
    ) -> (StatusCode, http::HeaderMap, Bytes) {
        let send = async {
            let stream =
                TokioIo::new(self.connect(if is_http2 { b"h2" } else { b"http/1.1" }).await);
            let response = if is_http2 {
                let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
                let (mut sender, connection) = handshake.await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            } else {
                let handshake = hyper::client::conn::http1::handshake(stream);
                let (mut sender, connection) = handshake.await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            };
            let (head, body) = response.into_parts();
            (head.status, head.headers, body.collect().await.unwrap().to_bytes())
        };
        tokio::time::timeout(LIMIT, send).await.expect("an answer")
    }

    async fn post(&self, is_http2: bool, body: impl Into<Bytes>) -> (StatusCode, Bytes) {
        let request = request(Method::POST, self.address, "/pods", "application/json", body);
        let (code, _, body) = self.send(is_http2, request).await;
        (code, body)
    }

    /// What a raw caller hears until its connection ends.
    async fn raw(&self, text: &str) -> String {
        let mut stream = self.connect(b"http/1.1").await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        // The end may come without TLS's own farewell.
        let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut heard)).await.expect("an end");
        String::from_utf8_lossy(&heard).into_owned()
    }

    fn count(&self, path: &str, outcome: &'static str) -> u64 {
        self.webhooks.metrics().count(path, outcome)
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("it stops").unwrap();
    }
}

fn request(
    method: Method,
    address: SocketAddr,
    path: &str,
    kind: &str,
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("https://{address}{path}"))
        .header("host", "localhost")
        .header("content-type", kind)
        .body(Full::new(body.into()))
        .unwrap()
}

#[tokio::test]
async fn reviews_are_answered_with_their_uid_over_both_versions_of_http() {
    let server = Server::start(WebhookSettings::default()).await;
    for (is_http2, uid) in [(false, "one"), (true, "two")] {
        let (code, body) = server.post(is_http2, review(uid, "p").to_string()).await;
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({ "uid": uid, "allowed": true, "warnings": ["hello"] });
        assert_eq!((code, &answer["response"]), (StatusCode::OK, &expected));
    }
    assert_eq!(server.count("/pods", "allowed"), 2);
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_review_gets_the_status_that_says_so() {
    let server = Server::start(WebhookSettings::default()).await;
    let (json, good) = ("application/json", review("u", "p").to_string());
    let long = " ".repeat(LARGEST_BODY + 1);
    let cases = [
        (Method::GET, "/pods", json, "", 405, "/pods", "wrong-method"),
        (Method::PUT, "/pods", json, &good, 405, "/pods", "wrong-method"),
        (Method::POST, "/pods", "text/plain", &good, 415, "/pods", "wrong-type"),
        (Method::POST, "/elsewhere", json, &good, 404, "other", "unknown-path"),
        (Method::POST, "/pods/", json, &good, 404, "other", "unknown-path"),
        (Method::POST, "/pods", json, "{", 400, "/pods", "malformed"),
        (Method::POST, "/pods", json, "", 400, "/pods", "malformed"),
        (Method::POST, "/pods", json, &long, 413, "/pods", "too-large"),
        (Method::POST, "/pods?timeout=5s", "application/json; charset=utf-8", &good, 200, "", ""),
    ];
    for (method, path, kind, body, code, label, outcome) in cases {
        for is_http2 in [false, true] {
            let before = server.count(label, outcome);
            let asked = request(method.clone(), server.address, path, kind, body.to_owned());
            let (status, headers, answer) = server.send(is_http2, asked).await;
            assert_eq!(status.as_u16(), code, "{method} {path} {kind}: {answer:?}");
            assert_eq!(headers.contains_key("allow"), code == 405);
            assert!(outcome.is_empty() || server.count(label, outcome) == before + 1, "{outcome}");
        }
    }
    // Who says beforehand how long it is need not send it.
    let head = "POST /pods HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let heard = server.raw(&format!("{head}content-length: {}\r\n\r\n", long.len())).await;
    assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
    let chunks = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let text = format!("{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n{chunks}");
    let heard = server.raw(&text).await;
    assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
    server.stop().await;
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_request_alone() {
    let server = Server::start(WebhookSettings::default()).await;
    for is_http2 in [false, true] {
        let (code, body) = server.post(is_http2, review("u", "panic").to_string()).await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!String::from_utf8_lossy(&body).contains("as told"), "faults are not for callers");
        assert_eq!(server.post(is_http2, review("u", "p").to_string()).await.0, StatusCode::OK);
    }
    assert_eq!((server.count("/pods", "panicked"), server.count("/pods", "allowed")), (2, 2));
    server.stop().await;
}

/// Deadlines that a test can wait for.
fn hurried(patience: Duration) -> WebhookSettings {
    let settings = WebhookSettings::default();
    let connections = ConnectionLimits {
        handshake: patience,
        head: patience,
        body: patience,
        idle: patience,
        ..settings.connections
    };
    WebhookSettings { connections, ..settings }
}

/// As shipped, with room for few: what the API server waits for at most, and so many connections and requests.
fn crowded(most: usize) -> WebhookSettings {
    let settings = WebhookSettings::default();
    let connections = ConnectionLimits { most, most_per_source: most / 2, ..settings.connections };
    WebhookSettings { connections, most_requests: 4, most_requests_per_source: 2, ..settings }
}

/// What the shipped configurations let the API server wait.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A connection from 127.0.0.`last`.
async fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn callers_that_take_their_time_are_sent_away() {
    let server = Server::start(hurried(Duration::from_millis(200))).await;
    let silent = server.raw("");
    let half_a_head = server.raw("POST /pods HTTP/1.1\r\nhost: local");
    let head = "POST /pods HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let text = format!("{head}content-length: 100\r\n\r\n{{");
    let half_a_body = server.raw(&text);
    let (silent, _, late) = tokio::join!(silent, half_a_head, half_a_body);
    assert!(silent.is_empty() || silent.starts_with("HTTP/1.1 408"), "{silent}");
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    assert_eq!(server.count("/pods", "slow"), 1);
    // One that speaks HTTP/2 and then says nothing, and one that does not even shake hands.
    let mut mute = server.connect(b"h2").await;
    let mut mum = TcpStream::connect(server.address).await.unwrap();
    let mut heard = Vec::new();
    let _ = tokio::time::timeout(LIMIT, mute.read_to_end(&mut heard)).await.expect("it ends");
    let _ = tokio::time::timeout(LIMIT, mum.read_to_end(&mut heard)).await.expect("it ends");
    until("all gone", || server.webhooks.metrics().connections.get() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_crowd_of_mute_callers_does_not_delay_the_others() {
    let server = Server::start(crowded(8)).await;
    let began = Instant::now();
    let mut mute = Vec::new();
    // Of the API server's own address, and of others.
    for last in [1, 2, 3, 1, 2, 3] {
        for _ in 0..10 {
            mute.push(connect_from(last, server.address).await);
        }
        assert_eq!(server.post(true, review("u", "p").to_string()).await.0, StatusCode::OK);
    }
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    let open = server.webhooks.metrics().connections.get();
    assert!(open <= 8 + 10, "those that close are few: {open}");
    server.stop().await;
}

#[tokio::test]
async fn bodies_that_drip_do_not_delay_the_others() {
    let server = Server::start(crowded(64)).await;
    let began = Instant::now();
    let head = "POST /pods HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut dripping = Vec::new();
    for _ in 0..crowded(64).most_requests * 4 {
        let mut stream = server.connect(b"http/1.1").await;
        let text = format!("{head}content-length: 100\r\n\r\n{{");
        stream.write_all(text.as_bytes()).await.unwrap();
        dripping.push(stream);
    }
    for is_http2 in [false, true] {
        let (code, _) = server.post(is_http2, review("u", "p").to_string()).await;
        assert_eq!(code, StatusCode::OK);
    }
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(server.count("/pods", "allowed"), 2);
    server.stop().await;
}

#[tokio::test]
async fn an_api_server_may_have_many_requests_at_once() {
    let server = Server::start(crowded(64)).await;
    let asked = (0..24).map(|_| server.post(false, review("u", "p").to_string()));
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|(code, _)| *code == StatusCode::OK), "{answers:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_old_connection_is_asked_to_go() {
    let settings = WebhookSettings::default();
    let lasts = Duration::from_millis(100);
    let connections = ConnectionLimits { lasts, ..settings.connections };
    let server = Server::start(WebhookSettings { connections, ..settings }).await;
    let stream = TokioIo::new(server.connect(b"h2").await);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (mut sender, connection) = handshake.await.unwrap();
    let ended = tokio::spawn(connection);
    let body = review("u", "p").to_string();
    let asked = request(Method::POST, server.address, "/pods", "application/json", body);
    assert_eq!(sender.send_request(asked).await.unwrap().status(), StatusCode::OK);
    tokio::time::timeout(LIMIT, ended).await.expect("it ends").unwrap().unwrap();
    server.stop().await;
}

#[tokio::test]
async fn who_shows_no_good_certificate_is_refused_in_the_handshake() {
    let (good, other) = (Authority::new("api server"), Authority::new("somebody else"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, &good.pem).unwrap();
    let clients = ClientAuthorities::read(&file).unwrap();
    let server = Server::start_for(WebhookSettings::default(), Some(clients)).await;
    assert!(server.answers(Some(good.client(false))).await);
    for (shown, why) in [
        (None, "none"),
        (Some(other.client(false)), "of another authority"),
        (Some(good.client(true)), "expired"),
    ] {
        assert!(!server.answers(shown).await, "{why}");
    }
    assert_eq!(server.count("/pods", "wrong-method"), 1, "the others have asked nothing");
    server.stop().await;
}
