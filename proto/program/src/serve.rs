//! A small HTTP server: few connections, short patience, loopback callers only unless bound elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How many callers are served at once.
const CALLERS: usize = 32;

/// How long a caller may take for the head of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection may last, whatever it does.
const LASTS: Duration = Duration::from_secs(60);

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Caller(pub IpAddr);

/// Serves until told to stop.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let router = match local {
        true => router.layer(middleware::from_fn_with_state((), only_local)),
        false => router,
    };
    let slots = Arc::new(Semaphore::new(CALLERS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = async {
                let slot = slots.clone().acquire_owned().await;
                (listener.accept().await, slot)
            } => accepted,
        };
        let (Ok((stream, caller)), Ok(slot)) = accepted else {
            // Out of descriptors, most likely: give others time to end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let router = router.clone().layer(Extension(Caller(caller.ip())));
        let stop = stop.clone();
        tokio::spawn(async move {
            let _slot = slot;
            // HTTP/1 only: its timer for the head of a request runs from the first moment.
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(16 * 1024);
            let served =
                builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            tokio::select! {
                _ = served => {}
                () = tokio::time::sleep(LASTS) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// A page in somebody's browser must not reach a port on loopback: neither by a name of its own for 127.0.0.1, nor
/// with a request that changes something.
async fn only_local(State(()): State<()>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !names_loopback(host) {
        let text = format!("this port is for callers on the node itself, not for {host:?}\n");
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    if request.method() != Method::GET && headers.contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "not from a browser\n").into_response();
    }
    next.run(request).await
}

fn names_loopback(host: &str) -> bool {
    let address = host.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| host.parse());
    if let Ok(address) = address {
        return address.is_loopback();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, port)| match port.parse::<u16>() {
        Ok(_) => name,
        Err(_) => host,
    });
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in
            ["127.0.0.1", "127.0.0.1:80", "localhost", "localhost:9", "[::1]:80", "::1", "[::1]"]
        {
            assert!(names_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:80", "10.0.0.1:80", "127.0.0.1.evil:80", "x:y"]
        {
            assert!(!names_loopback(host), "{host}");
        }
    }
}
