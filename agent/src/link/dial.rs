//! Opens a stream: address, TLS, token; and says in one word what was wrong.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_program::causes;
use muster_proto::link::v1::link_client::LinkClient;
use muster_proto::link::{LARGEST_MESSAGE, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};

/// Largest file of certificates or token that is read.
const LARGEST_FILE: u64 = 256 * 1024;

/// Messages that wait to be sent.
const QUEUE: usize = 16;

/// The header in which a hub says why it ends a stream.
const REASON: &str = "muster-reason";

/// Where the hub is and how to prove who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// `https://host:port`; with `plaintext` also `http://127.0.0.1:port` and `unix:/path`.
    pub address: String,
    /// Certificates of the authorities to trust, PEM; read at every connect.
    pub ca_file: PathBuf,
    /// The name in the hub's certificate, where it is not the host of the address.
    pub domain: Option<String>,
    /// The projected service account token; read at every connect and every ping.
    pub token_file: PathBuf,
    /// Whether a loopback address or a unix socket may be spoken to without TLS.
    pub plaintext: bool,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The first wait between two tries.
    pub backoff_least: Duration,
    /// The longest wait between two tries.
    pub backoff_most: Duration,
}

/// A try that came to nothing, or a stream that ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct StreamError {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) address: String,
    pub(super) token: String,
    pub(super) outgoing: mpsc::Sender<v1::FromAgent>,
    pub(super) incoming: Streaming<v1::FromHub>,
}

// === impl LinkSettings ===

impl LinkSettings {
    /// The usual waits, TLS only.
    pub fn new(
        address: impl Into<String>,
        ca_file: impl Into<PathBuf>,
        token_file: impl Into<PathBuf>,
    ) -> Self {
        Self {
            address: address.into(),
            ca_file: ca_file.into(),
            domain: None,
            token_file: token_file.into(),
            plaintext: false,
            connect_timeout: Duration::from_secs(10),
            backoff_least: Duration::from_millis(100),
            backoff_most: Duration::from_secs(30),
        }
    }

    /// The token as it is now.
    pub(super) fn token(&self) -> Result<String, StreamError> {
        let text =
            read(&self.token_file).map_err(|message| StreamError::new("token-missing", message))?;
        let token = text.trim();
        if token.is_empty() {
            let message = format!("the token file {} is empty", self.token_file.display());
            return Err(StreamError::new("token-missing", message));
        }
        Ok(token.to_owned())
    }

    /// The name that the certificate of a hub at this address must have; none: the host of the address. A hub that leads is
    /// named by its pod's address, and has the same certificate as all others.
    fn certified(&self, address: &str) -> Option<String> {
        let host = || {
            let uri: http::Uri = self.address.parse().ok()?;
            Some(uri.host()?.trim_matches(['[', ']']).to_owned())
        };
        let other = (address != self.address).then(host).flatten();
        self.domain.clone().or(other)
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, StreamError> {
        let bad = |error: &dyn Error| {
            StreamError::new(
                "address-invalid",
                format!("{address} is no address of a hub: {error}"),
            )
        };
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| bad(&error))?;
        if !address.starts_with("https://") {
            if !(self.plaintext && stays_here(address)) {
                let message = format!("{address} has no TLS: use https://");
                return Err(StreamError::new("address-insecure", message));
            }
            return Ok(endpoint);
        }
        let authorities = read(&self.ca_file)
            .map_err(|message| StreamError::new("certificate-invalid", message))?;
        if !authorities.contains("-----BEGIN CERTIFICATE-----") {
            let message = format!("{} holds no certificate in PEM form", self.ca_file.display());
            return Err(StreamError::new("certificate-invalid", message));
        }
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authorities))
            .timeout(self.connect_timeout);
        if let Some(name) = self.certified(address) {
            tls = tls.domain_name(name);
        }
        endpoint.tls_config(tls).map_err(|error| {
            StreamError::new("certificate-invalid", format!("TLS to {address}: {}", causes(&error)))
        })
    }

    /// Opens a stream.
    pub(super) async fn dial(&self, address: &str) -> Result<Connection, StreamError> {
        let token = self.token()?;
        let endpoint = self
            .endpoint(address)?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(20))
            .keep_alive_while_idle(true)
            // Enough for a table at the speed of a data centre, little enough for an idle agent.
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(512 * 1024)
            .http2_max_header_list_size(16 * 1024);
        let late = |_| {
            let limit = self.connect_timeout;
            StreamError::new("unreachable", format!("{address} has not answered for {limit:?}"))
        };
        let connect = tokio::time::timeout(self.connect_timeout, endpoint.connect());
        let channel =
            connect.await.map_err(late)?.map_err(|error| StreamError::of(address, &error))?;
        let mut client = LinkClient::new(channel)
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE);
        let (outgoing, messages) = mpsc::channel(QUEUE);
        let mut request = Request::new(ReceiverStream::new(messages));
        let mut bearer: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| {
            let file = self.token_file.display();
            StreamError::new("token-missing", format!("the token file {file} holds no token"))
        })?;
        bearer.set_sensitive(true);
        request.metadata_mut().insert("authorization", bearer);
        let open = tokio::time::timeout(self.connect_timeout, client.open(request));
        let response =
            open.await.map_err(late)?.map_err(|status| StreamError::of_status(address, &status))?;
        let address = address.to_owned();
        Ok(Connection { address, token, outgoing, incoming: response.into_inner() })
    }
}

// === impl StreamError ===

impl StreamError {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Whether it is the course of things, and nobody's problem.
    pub(super) fn is_routine(&self) -> bool {
        ["renew", "role", "stopping"].contains(&self.reason)
    }

    /// Of an attempt to connect.
    fn of(address: &str, error: &(dyn Error + 'static)) -> Self {
        match certificate(error) {
            Some(problem) => Self::new(
                "certificate-invalid",
                format!("{address} shows a certificate that cannot be trusted: {problem}"),
            ),
            None => Self::new("unreachable", format!("{address}: {}", causes(error))),
        }
    }

    /// Of a stream that ended like this.
    pub(super) fn of_status(address: &str, status: &Status) -> Self {
        let said = status.metadata().get(REASON).and_then(|reason| reason.to_str().ok());
        let reason = match (said, status.code()) {
            (Some("hub-full"), _) => "hub-full",
            (Some("replaced"), _) => "replaced",
            (Some("slow"), _) => "slow",
            (Some("renew"), _) => "renew",
            (Some("role"), _) => "role",
            (Some("stopping"), _) => "stopping",
            (Some("invalid-message"), _) => "protocol",
            (_, Code::Unauthenticated | Code::PermissionDenied) => "token-refused",
            (_, Code::ResourceExhausted) => "hub-full",
            (_, Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded) => "unreachable",
            // What a connection that breaks looks like.
            (None, Code::Unknown | Code::Internal) if status.source().is_some() => "unreachable",
            _ => "protocol",
        };
        let message: String = status.message().chars().take(512).collect();
        Self::new(reason, format!("{address}: {message}"))
    }
}

fn stays_here(address: &str) -> bool {
    if address.starts_with("unix:") {
        return true;
    }
    let host = address.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let Some(host) = host else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn read(path: &Path) -> Result<String, String> {
    let problem = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let file = std::fs::File::open(path).map_err(problem)?;
    let mut text = String::new();
    let length = file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(problem)?;
    match length as u64 > LARGEST_FILE {
        true => Err(format!("{} is larger than {LARGEST_FILE} bytes", path.display())),
        false => Ok(text),
    }
}

/// What is wrong with a certificate, if that is what an error is about.
fn certificate(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner: Option<&(dyn Error + 'static)> = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        for error in [Some(error), inner].into_iter().flatten() {
            if let Some(rustls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
                return Some(problem.to_string());
            }
        }
        next = inner.and_then(Error::source).or_else(|| error.source());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_shows_the_certificate_of_the_service_that_named_it() {
        let service = "https://muster-coordinator.muster-system.svc:8443";
        let cases = [
            (service, None, service, None),
            (
                service,
                None,
                "https://10.244.0.3:8443",
                Some("muster-coordinator.muster-system.svc"),
            ),
            (service, Some("hub"), "https://10.244.0.3:8443", Some("hub")),
            ("https://[fd00::1]:8443", None, "https://[fd00::2]:8443", Some("fd00::1")),
        ];
        for (configured, domain, address, wanted) in cases {
            let mut settings = LinkSettings::new(configured, "ca.crt", "token");
            settings.domain = domain.map(str::to_owned);
            assert_eq!(settings.certified(address).as_deref(), wanted, "{configured} {address}");
        }
    }

    #[test]
    fn only_loopback_and_sockets_may_go_without_tls() {
        let cases = [
            ("http://127.0.0.1:80", true),
            ("http://127.3.0.1:80", true),
            ("http://[::1]:80", true),
            ("unix:/run/muster.sock", true),
            ("http://localhost:80", false),
            ("http://10.0.0.1:80", false),
            ("http://127.0.0.1.example.org:80", false),
            ("http://127.0.0.1@example.org", false),
        ];
        for (address, here) in cases {
            assert_eq!(stays_here(address), here, "{address}");
            let mut settings = LinkSettings::new(address, "/none", "/none");
            let refused = settings.endpoint(address).unwrap_err();
            assert_eq!(refused.reason, "address-insecure", "{address}");
            settings.plaintext = true;
            assert_eq!(settings.endpoint(address).is_ok(), here, "{address}");
        }
    }

    #[test]
    fn a_token_file_is_trimmed_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let settings = LinkSettings::new("https://hub", "/none", &file);
        assert_eq!(settings.token().unwrap_err().reason, "token-missing");
        std::fs::write(&file, "abc\n").unwrap();
        assert_eq!(settings.token().as_deref(), Ok("abc"));
        for bad in [String::new(), "x".repeat(LARGEST_FILE as usize + 1)] {
            std::fs::write(&file, bad).unwrap();
            assert_eq!(settings.token().unwrap_err().reason, "token-missing");
        }
    }
}
