//! What is asked of a coordinator that does not lead is asked of the one that does: all of them listen at the same port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use muster_dijob::server::Answer;
use muster_dijob::server::answer::Body as Said;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::DiServer;
use super::answer::Asked;
use super::handed::{HEADER, PURPOSE};

/// Where the servers of other coordinators are, by the addresses of their hubs, where they do not share a port. Copies
/// share it.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<Mutex<BTreeMap<String, SocketAddr>>>);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unheard {
    /// Nothing was done: it can be asked again.
    Undone(String),
    /// It may have been done.
    Lost(String),
}

/// No answer is larger.
const LARGEST: usize = 64 * 1024 * 1024;

/// How much longer than a request may take its answer is waited for: half a replica is taken back after the end.
const MARGIN: Duration = Duration::from_secs(10);

// === impl Peers ===

impl Peers {
    /// The coordinator with this hub listens there.
    pub fn add(&self, hub: &str, server: SocketAddr) {
        self.0.lock().insert(hub.to_owned(), server);
    }

    fn get(&self, hub: &str) -> Option<SocketAddr> {
        self.0.lock().get(hub).copied()
    }
}

// === impl DiServer ===

impl DiServer {
    /// What the leader answers. `leader` is where its hub is.
    pub(super) async fn forward(&self, leader: &str, asked: &Asked) -> Result<Answer, Unheard> {
        let unknown = || Unheard::Undone("the leader's address is unknown".to_owned());
        let address = match self.settings.peers.get(leader) {
            Some(peer) => peer.to_string(),
            None => {
                let uri: Option<Uri> = leader.parse().ok();
                let host = uri.as_ref().and_then(Uri::host).ok_or_else(unknown)?;
                format!("{host}:{}", self.port)
            }
        };
        let lost = || Unheard::Lost(format!("the leader at {address} does not answer"));
        let longest = self.settings.longest + MARGIN;
        let unready = || Unheard::Undone("this coordinator has no certificate yet".to_owned());
        let key = self.certificates.shared_secret(PURPOSE).ok_or_else(unready)?;
        let (source, now) = (asked.caller.source, jiff::Timestamp::now());
        let proof = asked.content().prove(&key, source, rand::random(), now);
        timeout(longest, hand(&address, asked, &proof)).await.unwrap_or_else(|_| Err(lost()))
    }
}

async fn hand(address: &str, asked: &Asked, proof: &str) -> Result<Answer, Unheard> {
    let why = |error: &dyn std::fmt::Display| format!("the leader at {address}: {error}");
    let undone = |error: &dyn std::fmt::Display| Unheard::Undone(why(error));
    let lost = |error: &dyn std::fmt::Display| Unheard::Lost(why(error));
    let stream = TcpStream::connect(address).await.map_err(|error| undone(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| undone(&error))?;
    tokio::spawn(connection);
    let target = match asked.query.as_str() {
        "" => asked.path.clone(),
        query => format!("{}?{query}", asked.path),
    };
    let mut request = Request::builder()
        .method(asked.method.as_str())
        .uri(target)
        .header(header::HOST, address)
        .header(HEADER, proof);
    if let Some(token) = &asked.caller.token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request =
        request.body(Full::new(Bytes::clone(&asked.body))).map_err(|error| undone(&error))?;
    let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
    let status = response.status().as_u16();
    if status == 503 {
        return Err(undone(&"it does not lead, or asks to try again"));
    }
    let body = Limited::new(Body::new(response.into_body()), LARGEST).collect().await;
    let body = body.map_err(|error| lost(&error))?.to_bytes();
    let said = serde_json::from_slice(&body).map_err(|error| lost(&error))?;
    Ok(Answer { status, body: Said::Json(said) })
}
