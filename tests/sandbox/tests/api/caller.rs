//! A client for tests: requests in process or over HTTP, and open watches read line by line.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use muster_sandbox::Sandbox;
use muster_sandbox::clock::Clock;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tokio::net::TcpStream;

use super::panics;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// No wait in these tests is longer; it ends only a test that would hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What the server said.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Process,
    Http,
}

/// One open watch.
pub struct Watch {
    body: Body,
    buffer: BytesMut,
}

/// A bare server on the machine's clock.
pub async fn bare() -> Sandbox {
    panics::watch();
    Sandbox::builder().controllers(None).start().await.unwrap()
}

/// A bare server whose clock the test moves.
pub async fn by_hand() -> (Sandbox, Clock) {
    panics::watch();
    let clock = Clock::by_hand("2026-01-02T03:04:05Z".parse().unwrap());
    let builder = Sandbox::builder().controllers(None).clock(clock.clone());
    (builder.start().await.unwrap(), clock)
}

/// One request in process.
pub async fn call(
    sandbox: &Sandbox,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Bytes>,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .header("user-agent", "tests")
        .body(Full::new(body.into()))
        .unwrap();
    answer(sandbox.api().serve(request).await).await
}

pub async fn get(sandbox: &Sandbox, path: &str) -> Answer {
    call(sandbox, Method::GET, path, JSON, "").await
}

pub async fn post(sandbox: &Sandbox, path: &str, body: &Value) -> Answer {
    call(sandbox, Method::POST, path, JSON, body.to_string()).await
}

pub async fn apply(sandbox: &Sandbox, path: &str, manager: &str, body: &Value) -> Answer {
    let path = format!("{path}?fieldManager={manager}");
    call(sandbox, Method::PATCH, &path, APPLY, body.to_string()).await
}

/// One request on a connection of its own.
pub async fn http(
    sandbox: &Sandbox,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Bytes>,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "sandbox")
        .header("content-type", media)
        .body(Full::new(body.into()))
        .unwrap();
    answer(send(sandbox, request).await).await
}

async fn send(sandbox: &Sandbox, request: Request<Full<Bytes>>) -> Response<Body> {
    let stream = TcpStream::connect(address(sandbox)).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap().map(Body::new)
}

/// Host and port of the server.
pub fn address(sandbox: &Sandbox) -> String {
    sandbox.url().trim_start_matches("http://").to_owned()
}

async fn answer(response: Response<Body>) -> Answer {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

/// Runs a law over inputs drawn from a fixed seed. `MUSTER_CASES=20` runs twenty times as many.
pub fn law<S: Strategy, F: Future<Output = ()>>(
    cases: u32,
    inputs: S,
    check: impl Fn(S::Value) -> F,
) {
    panics::watch();
    let times = std::env::var("MUSTER_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: cases * times.unwrap_or(1),
        max_shrink_iters: 100,
        max_shrink_time: 10_000,
        failure_persistence: None,
        ..Config::default()
    };
    let dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, dice);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runner.run(&inputs, |input| {
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, check(input)).await.expect("it hangs");
        });
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    panics::assert_none();
}

/// Waits for a condition, and fails when it never comes true.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A query string's value, encoded.
pub fn quoted(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

// === impl Answer ===

impl Answer {
    /// The body of an answer that must have this code.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }
}

/// The `resourceVersion` of an object or list.
#[track_caller]
pub fn revision(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"].as_str().expect("a revision").parse().unwrap()
}

// === impl Watch ===

impl Watch {
    pub async fn open(sandbox: &Sandbox, way: Way, path: &str) -> Self {
        let request = Request::get(path)
            .header("host", "sandbox")
            .header("user-agent", "tests")
            .body(Full::default())
            .unwrap();
        let response = match way {
            Way::Process => sandbox.api().serve(request).await,
            Way::Http => send(sandbox, request).await,
        };
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), buffer: BytesMut::new() }
    }

    /// The next event; none when the watch is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame =
                tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a silent watch");
            match frame {
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// All events until the bookmark at `revision`, which is not among them.
    pub async fn until(&mut self, revision: u64) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            if event["type"] != "BOOKMARK" {
                events.push(event);
            } else if self::revision(&event["object"]) >= revision {
                return events;
            }
        }
        panic!("the watch ended early, after {events:?}");
    }
}
