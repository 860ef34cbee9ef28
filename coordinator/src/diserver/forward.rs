//! What is asked of a coordinator that does not lead is asked of the one that does: all of them listen at the same port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

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

/// Where the servers of other coordinators are, by the addresses of their hubs, where they do not share a port. Copies
/// share it.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<Mutex<BTreeMap<String, SocketAddr>>>);

/// No answer is larger.
const LARGEST: usize = 64 * 1024 * 1024;

/// Says that a request was handed on once: it is not handed on again.
pub(super) const HANDED: &str = "muster-handed-on";

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
    pub(super) async fn forward(&self, leader: &str, asked: &Asked) -> Result<Answer, String> {
        let address = match self.settings.peers.get(leader) {
            Some(peer) => peer.to_string(),
            None => {
                let uri: Option<Uri> = leader.parse().ok();
                let host =
                    uri.as_ref().and_then(Uri::host).ok_or("the leader's address is unknown")?;
                format!("{host}:{}", self.port)
            }
        };
        let handed = timeout(self.settings.longest, hand(&address, asked)).await;
        match handed {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(format!("the leader at {address} cannot be asked: {why}")),
            Err(_) => Err(format!("the leader at {address} does not answer")),
        }
    }
}

async fn hand(address: &str, asked: &Asked) -> Result<Answer, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let target = match asked.query.as_str() {
        "" => asked.path.clone(),
        query => format!("{}?{query}", asked.path),
    };
    let request = Request::builder()
        .method(asked.method.as_str())
        .uri(target)
        .header(header::HOST, address)
        .header(HANDED, "1")
        .body(Full::new(Bytes::clone(&asked.body)))
        .map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let status = response.status().as_u16();
    let body = Limited::new(Body::new(response.into_body()), LARGEST).collect().await;
    let body = body.map_err(|error| text(&error))?.to_bytes();
    let said = serde_json::from_slice(&body).map_err(|error| text(&error))?;
    Ok(Answer { status, body: Said::Json(said) })
}
