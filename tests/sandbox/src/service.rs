//! The server as a tower service: a client in the same process needs no socket.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};

use crate::api::Api;

/// Calls the server directly.
#[derive(Clone, Debug)]
pub struct InProcess {
    api: Arc<Api>,
    /// What is added to requests that do not say it themselves.
    defaults: Vec<(header::HeaderName, HeaderValue)>,
}

// === impl InProcess ===

impl InProcess {
    /// Passes requests on as they are.
    pub fn new(api: Arc<Api>) -> Self {
        Self { api, defaults: Vec::new() }
    }

    /// Adds a token and a user agent to requests without.
    pub fn with_identity(mut self, token: &str, agent: &str) -> Self {
        let headers = [
            (header::AUTHORIZATION, format!("Bearer {token}")),
            (header::USER_AGENT, agent.to_owned()),
        ];
        for (name, value) in headers {
            self.defaults.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        }
        self
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        for (name, value) in &self.defaults {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let api = self.api.clone();
        Box::pin(async move { Ok(api.serve(request).await) })
    }
}
