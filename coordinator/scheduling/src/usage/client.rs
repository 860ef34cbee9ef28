//! A client of Prometheus, with the credentials and the authority that its users have written down: in the address, as Go's client
//! reads them, or in a Secret of the coordinator's namespace.
//!
//! ```text
//!   connectionString  https://user:password@prometheus.monitoring:9090
//!   Secret            token | username, password          who asks
//!                     ca.crt                              who may answer
//! ```

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::config::AuthInfo;
use muster_scheduler::config::Connection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;

/// Where Secrets are read: by name, in the coordinator's own namespace and in no other.
#[derive(Clone)]
pub struct Secrets {
    api: Api<Secret>,
    namespace: String,
}

/// Who asks, and whose answer counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    token: Option<String>,
    user: Option<(String, String)>,
    /// Certificates of authorities. None: those that the system knows.
    authorities: Option<Vec<Vec<u8>>>,
}

/// The type of Secrets that let their reader act in the cluster.
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

// === impl Secrets ===

impl Secrets {
    /// Of this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), namespace: namespace.to_owned() }
    }

    /// What the Secret of this name says.
    pub(super) async fn read(&self, name: Option<&str>) -> anyhow::Result<Credentials> {
        let Some(name) = name else { return Ok(Credentials::default()) };
        let of = || format!("Secret {}/{name} (authSecretName)", self.namespace);
        let secret = self.api.get_opt(name).await.with_context(of)?;
        let secret = secret.with_context(|| format!("{} does not exist: create it", of()))?;
        // What somebody holds who is trusted here is not for a server that a shard names.
        ensure!(
            secret.type_.as_deref() != Some(ACCOUNT_TOKEN),
            "{}: it is the token of a service account: put what Prometheus asks for into one of type Opaque",
            of()
        );
        Credentials::read(&secret.data.unwrap_or_default()).with_context(of)
    }
}

// === impl Credentials ===

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    fn read(data: &BTreeMap<String, ByteString>) -> anyhow::Result<Self> {
        let text = |key: &str| match data.get(key) {
            None => Ok(None),
            Some(ByteString(bytes)) => {
                let text = std::str::from_utf8(bytes).ok();
                let text = text.with_context(|| format!("data.{key}: it is no text"))?.trim();
                let visible = text.bytes().all(|byte| !byte.is_ascii_control());
                ensure!(visible || key == AUTHORITY, "data.{key}: it has more than one line");
                Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
            }
        };
        let user = match (text("username")?, text("password")?) {
            (Some(name), Some(password)) => Some((name, password)),
            (None, None) => None,
            (Some(_), None) => bail!("data.password: it is missing beside data.username: add it"),
            (None, Some(_)) => bail!("data.username: it is missing beside data.password: add it"),
        };
        let token = text("token")?;
        ensure!(
            token.is_none() || user.is_none(),
            "data.token: data.username is set as well: leave one"
        );
        let authorities = text(AUTHORITY)?.map(|text| authorities(&text)).transpose()?;
        ensure!(
            token.is_some() || user.is_some() || authorities.is_some(),
            "data: it has none of token, username with password, and ca.crt: add what Prometheus asks for"
        );
        Ok(Self { token, user, authorities })
    }
}

/// The key of a Secret with certificates of authorities.
const AUTHORITY: &str = "ca.crt";

fn authorities(text: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = all.ok().filter(|all| !all.is_empty());
    let all = all.context("data.ca.crt: it is no certificate: write it as PEM")?;
    Ok(all.into_iter().map(|one| one.to_vec()).collect())
}

/// A client of Prometheus. kube's own does HTTP and TLS.
pub(super) fn client(at: &Connection, credentials: &Credentials) -> anyhow::Result<Client> {
    let url = match at {
        Connection::Url(url) => url.clone(),
        Connection::Variable(name) => std::env::var(name).ok().with_context(|| {
            format!("connectionStringEnvVar: the coordinator has no variable {name}: set it")
        })?,
        Connection::Elsewhere => bail!("connectionString: it is missing: set it"),
    };
    let (url, user) = split(url.trim_end_matches('/'));
    // What is wrong with it may have a password in it.
    let url: http::Uri = url.parse().ok().context(
        "connectionString: it is no address: write it like http://prometheus.monitoring:9090",
    )?;
    let scheme = url.scheme_str().unwrap_or_default();
    ensure!(
        ["http", "https"].contains(&scheme),
        "connectionString: begin it with http:// or https://"
    );
    // Asked again it is soon enough.
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    config.root_cert.clone_from(&credentials.authorities);
    config.auth_info = auth(credentials, user)?;
    Client::try_from(config).context("connectionString")
}

/// An address without user and password, and those.
fn split(url: &str) -> (String, Option<(String, String)>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), None) };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((user, host)) = authority.rsplit_once('@') else { return (url.to_owned(), None) };
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    (format!("{scheme}://{host}{path}"), Some((unescaped(name), unescaped(password))))
}

/// A part of an address without its escapes.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// As kube takes them. The Secret counts before the address.
fn auth(credentials: &Credentials, user: Option<(String, String)>) -> anyhow::Result<AuthInfo> {
    let written = match (&credentials.token, credentials.user.clone().or(user)) {
        (Some(token), _) => json!({ "token": token }),
        (None, Some((name, password))) => json!({"username": name, "password": password}),
        (None, None) => json!({}),
    };
    serde_json::from_value(written).ok().context("authSecretName: it cannot be used")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[(&str, &str)]) -> anyhow::Result<Credentials> {
        let bytes =
            |(key, text): &(&str, &str)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec()));
        Credentials::read(&data.iter().map(bytes).collect())
    }

    #[test]
    fn a_secret_has_a_token_or_a_user_and_says_what_it_lacks() {
        let token = read(&[("token", "abc\n")]).unwrap();
        assert_eq!(token.token.as_deref(), Some("abc"), "files end with a line");
        let user = read(&[("username", "u"), ("password", "p")]).unwrap();
        assert_eq!(user.user, Some(("u".to_owned(), "p".to_owned())));
        for (data, word) in [
            (&[][..], "none of token"),
            (&[("tls.key", "k")][..], "none of token"),
            (&[("username", "u")][..], "data.password"),
            (&[("password", "p")][..], "data.username"),
            (&[("token", "t"), ("username", "u"), ("password", "p")][..], "leave one"),
            (&[("token", "a\r\nx: y")][..], "more than one line"),
            (&[("ca.crt", "soon")][..], "data.ca.crt"),
        ] {
            let error = format!("{:#}", read(data).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
        assert!(!format!("{user:?}{token:?}").contains("abc"), "nothing secret is said");
    }

    #[test]
    fn an_address_may_have_a_user_and_a_password() {
        let (url, user) = split("https://me:p%40ss@prometheus:9090/select/0");
        assert_eq!(url, "https://prometheus:9090/select/0");
        assert_eq!(user, Some(("me".to_owned(), "p@ss".to_owned())));
        assert_eq!(split("http://p:9090/a@b"), ("http://p:9090/a@b".to_owned(), None));
        assert_eq!(unescaped("100%"), "100%");
    }
}
