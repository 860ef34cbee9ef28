//! A small HTTP server: few connections, short deadlines, loopback callers only unless bound elsewhere.
//!
//! Probes come here together with everybody else, and the kubelet kills a program whose probes fail: nobody can keep them out. A
//! connection that says nothing makes room for the next one, and a request is worked on only when it has come as a whole.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::LARGEST_LEVEL;
use crate::connections::{Connection, ConnectionLimits, Connections, OpenConnection};

/// What callers may do.
pub const LIMITS: ConnectionLimits = ConnectionLimits {
    most: 256,
    most_per_source: 64,
    // There is no TLS.
    handshake: Duration::ZERO,
    head: Duration::from_secs(5),
    body: Duration::from_secs(2),
    idle: Duration::from_secs(30),
    lasts: Duration::from_secs(60),
};

/// Both ends of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The caller's.
    pub address: SocketAddr,
    /// Ours.
    pub server: SocketAddr,
}

/// Serves until told to stop.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    serve_within(listener, router, &Connections::new(LIMITS), stop).await;
}

/// The same with other limits, for tests.
pub async fn serve_within(
    listener: TcpListener,
    router: Router,
    connections: &Connections,
    stop: CancellationToken,
) {
    let local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let router = router.layer(middleware::from_fn(whole));
    let router = match local {
        true => router.layer(middleware::from_fn_with_state((), only_local)),
        false => router,
    };
    loop {
        let (stream, open) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = connections.accept(&listener) => accepted,
        };
        let (Ok(caller), Ok(server)) = (stream.peer_addr(), stream.local_addr()) else { continue };
        let router = router
            .clone()
            .layer(Extension(Caller { address: canonical(caller), server }))
            .layer(Extension(open.connection().clone()));
        let (limits, stop) = (*connections.limits(), stop.clone());
        tokio::spawn(async move { converse(stream, open, router, limits, stop).await });
    }
}

/// The address without the form that IPv4 has in sockets of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// One connection, until its end.
async fn converse(
    stream: TcpStream,
    open: OpenConnection,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        // That of a connection between two requests, too; `overdue` ends one that brings no first request.
        .header_read_timeout(limits.idle)
        .max_buf_size(16 * 1024);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::select! {
        _ = served => {}
        () = open.closed() => {}
        () = open.overdue() => {}
        () = tokio::time::sleep(limits.lasts) => {}
        () = stop.cancelled() => {}
    }
}

/// Reads a request to its end before anybody works on it, and tells its connection then.
async fn whole(
    Extension(connection): Extension<Connection>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let body = match timeout(connection.limits().body, axum::body::to_bytes(body, LARGEST_LEVEL))
        .await
    {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!("a body has at most {LARGEST_LEVEL} bytes\n");
            return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
        }
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the body took too long\n").into_response(),
    };
    let _working = connection.working();
    next.run(Request::from_parts(head, Body::from(body))).await
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Longest wait for what must happen.
    const LIMIT: Duration = Duration::from_secs(20);

    struct Server {
        address: SocketAddr,
        connections: Connections,
        _stop: tokio_util::sync::DropGuard,
    }

    async fn start(limits: ConnectionLimits) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Connections::new(limits));
        let router = Router::new().route("/healthz", axum::routing::any(async || "ok\n"));
        let (stop, own) = (CancellationToken::new(), connections.clone());
        let stopped = stop.clone();
        tokio::spawn(async move { serve_within(listener, router, &own, stopped).await });
        Server { address, connections, _stop: stop.drop_guard() }
    }

    /// What a caller hears until the connection ends.
    async fn ask(address: SocketAddr, text: &str) -> String {
        let heard = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut heard = String::new();
            // A connection that is reset has ended, too.
            let _ended = stream.read_to_string(&mut heard).await;
            heard
        };
        timeout(LIMIT, heard).await.expect("an answer")
    }

    const PROBE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_probe_is_answered_while_silent_callers_hold_all_connections() {
        let server = start(LIMITS).await;
        let mut silent = Vec::new();
        for _ in 0..LIMITS.most_per_source * 3 {
            silent.push(TcpStream::connect(server.address).await.unwrap());
        }
        // The kubelet has an address of the same node, and no better right than they.
        let heard = ask(server.address, PROBE).await;
        assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("ok\n"), "{heard}");
        assert!(server.connections.len() <= LIMITS.most_per_source);
        drop(silent);
    }

    #[tokio::test]
    async fn a_probe_is_answered_while_bodies_drip_and_connections_idle() {
        let server = start(LIMITS).await;
        let mut busy = Vec::new();
        for number in 0..LIMITS.most_per_source * 2 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let text = match number % 2 {
                0 => "PUT /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx",
                _ => "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            };
            // Earlier ones are closed for later ones.
            let _written = stream.write_all(text.as_bytes()).await;
            busy.push(stream);
        }
        let heard = ask(server.address, PROBE).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        drop(busy);
    }

    #[tokio::test]
    async fn a_body_that_drips_or_is_too_large_is_refused() {
        let limits = ConnectionLimits { body: Duration::from_millis(50), ..LIMITS };
        let server = start(limits).await;
        let put = |length: usize, body: &str| {
            let head = "PUT /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close";
            format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}")
        };
        let slow = ask(server.address, &put(10, "x")).await;
        assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
        let large = "x".repeat(LARGEST_LEVEL + 1);
        let large = ask(server.address, &put(large.len(), &large)).await;
        assert!(large.starts_with("HTTP/1.1 413"), "{large}");
        let good = ask(server.address, &put(1, "x")).await;
        assert!(good.starts_with("HTTP/1.1 200"), "{good}");
    }

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
