//! What both programs answer alike: a page, metrics, the level of the log.

use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::heartbeat::{self, Heartbeats};
use crate::log::LogLevel;
use crate::owner;
use crate::serve::Caller;

/// How much of a request for another log level is read.
pub const LARGEST_LEVEL: usize = 1024;

/// A page. What it shows comes from outside, in part: no script may run on it, whatever it says.
pub fn page(text: String) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(text)).into_response()
}

/// All metrics, as text.
pub fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _written = prometheus_client::encoding::text::encode(&mut text, registry);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Whether all loops of the program are alive; if not, which are not. `?verbose` says more, as Kubernetes' own programs do: all loops
/// and what `details` adds. Only loops count. What a program cannot reach is no reason to start it anew.
pub fn health(hearts: &Heartbeats, query: Option<&str>, details: impl Fn() -> String) -> Response {
    let now = Instant::now();
    let stuck = hearts.check(now);
    let (code, mut text) = match stuck.is_empty() {
        true => (StatusCode::OK, "ok\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, heartbeat::describe(&stuck)),
    };
    if query.is_some_and(|query| query.split('&').any(|one| one == "verbose")) {
        for (name, silent) in hearts.all(now) {
            text += &match silent {
                Some(silent) => format!("loop {name}: asked {} s ago\n", silent.as_secs()),
                None => format!("loop {name}: has answered\n"),
            };
        }
        text += &details();
    }
    (code, text).into_response()
}

/// Takes another level of the log, from root on this machine, or from the user that this program runs as.
pub fn set_level(log: &LogLevel, caller: Caller, wanted: &str) -> Response {
    if !caller.address.ip().is_loopback() {
        let text = "the log level is changed from the same machine or pod\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    if let Err(why) = may_change(caller, nix::unistd::geteuid().as_raw()) {
        return (StatusCode::FORBIDDEN, format!("{why}\n")).into_response();
    }
    match log.set(wanted.trim()) {
        Ok(()) => format!("{}\n", log.get()).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error:#}\n")).into_response(),
    }
}

/// Whether a caller of this machine may change what the program does, which runs as this user.
fn may_change(caller: Caller, own: u32) -> Result<(), String> {
    match owner::of(caller.address, caller.server) {
        Some(user) if user == 0 || user == own => Ok(()),
        Some(user) => Err(format!(
            "the log level is changed by root or by user {own}, whom this program runs as, and user {user} asks"
        )),
        None => Err("the log level is changed by root, and nobody knows whose connection this is"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn asked(hearts: &Heartbeats, query: Option<&str>) -> (StatusCode, String) {
        let response = health(hearts, query, || "watch Pod: fails\n".to_owned());
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 4096).await.unwrap();
        (head.status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn only_root_and_the_programs_own_user_change_what_it_does() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stream = std::net::TcpStream::connect(server).unwrap();
        let caller = Caller { address: stream.local_addr().unwrap(), server };
        let me = nix::unistd::geteuid().as_raw();
        assert_eq!(may_change(caller, me), Ok(()));
        // Root may, whoever the program runs as; anybody else may not.
        assert_eq!(may_change(caller, me + 1).is_ok(), me == 0);
        let gone = Caller { address: server, server };
        assert!(may_change(gone, me).unwrap_err().contains("nobody knows"));
    }

    #[tokio::test(start_paused = true)]
    async fn health_names_the_loop_that_is_stuck_and_details_do_not_count() {
        let hearts = Heartbeats::default();
        let _stuck = hearts.register("scheduler", heartbeat::LIMIT);
        assert_eq!(asked(&hearts, None).await, (StatusCode::OK, "ok\n".to_owned()));
        let (code, text) = asked(&hearts, Some("verbose")).await;
        assert_eq!(code, StatusCode::OK);
        assert_eq!(text, "ok\nloop scheduler: asked 0 s ago\nwatch Pod: fails\n");
        tokio::time::advance(heartbeat::LIMIT + Duration::from_secs(1)).await;
        let (code, text) = asked(&hearts, None).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("\"scheduler\""), "{text}");
    }
}
