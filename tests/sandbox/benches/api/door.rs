//! The two ways to the server: a call in the process, or HTTP over loopback.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use muster_sandbox::Sandbox;
use muster_sandbox::api::Api;
use tokio::net::TcpStream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A call of the tower service.
    Process,
    /// One HTTP/1.1 connection of its own.
    Http,
}

pub enum Door {
    /// In the process.
    Process(Arc<Api>),
    /// Over a connection.
    Http(SendRequest<Full<Bytes>>),
}

// === impl Door ===

impl Door {
    pub async fn open(sandbox: &Sandbox, way: Way) -> anyhow::Result<Self> {
        if way == Way::Process {
            return Ok(Self::Process(sandbox.api().clone()));
        }
        let address = sandbox.url().trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self::Http(sender))
    }

    /// Sends one request; the answer's body is still to be read.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        media: &'static str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Response<Body>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "sandbox")
            .header(header::USER_AGENT, "bench/1")
            .header(header::CONTENT_TYPE, media)
            .body(Full::new(body.into()))?;
        match self {
            Self::Process(api) => Ok(api.serve(request).await),
            Self::Http(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?.map(Body::new))
            }
        }
    }

    /// Sends one request and reads the whole answer, which must be a success.
    pub async fn done(
        &mut self,
        method: Method,
        path: &str,
        media: &'static str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Bytes> {
        let response = self.send(method, path, media, body).await?;
        let code = response.status();
        let answer = response.into_body().collect().await.context("reading the answer")?.to_bytes();
        ensure!(code.is_success(), "{path}: {code}: {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }
}
