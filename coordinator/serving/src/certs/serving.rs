//! The certificate that is served now. Whoever serves with it need not know that it changes.

use std::fmt;
use std::sync::Arc;

use ::ring::hmac;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::contents::Contents;
use super::{Bundle, CertsError, ClientAuthorities};

/// What servers of this process present. Copies share it.
#[derive(Clone)]
pub struct Certificates {
    served: watch::Receiver<Option<Arc<CertifiedKey>>>,
    authorities: watch::Receiver<Option<Arc<str>>>,
    secret: watch::Receiver<Option<hmac::Key>>,
}

/// The other end: changes what is served.
#[derive(Debug)]
pub struct CertificateSender {
    served: watch::Sender<Option<Arc<CertifiedKey>>>,
    authorities: watch::Sender<Option<Arc<str>>>,
    secret: watch::Sender<Option<hmac::Key>>,
}

/// Certificates to come, and the end that changes them.
pub fn certificates() -> (CertificateSender, Certificates) {
    let (served, seen) = watch::channel(None);
    let (authorities, trusted) = watch::channel(None);
    let (secret, shared) = watch::channel(None);
    let sender = CertificateSender { served, authorities, secret };
    (sender, Certificates { served: seen, authorities: trusted, secret: shared })
}

// === impl CertificateSender ===

impl CertificateSender {
    /// Serves this from now on: connections that are there keep what they have. On an error all stays as it was.
    pub fn serve(&self, bundle: &Bundle) -> Result<(), CertsError> {
        let contents = Contents::read(bundle)?;
        let trusted: Arc<str> = contents.authorities().into();
        if let Some(key) = &contents.current.key {
            self.secret.send_replace(Some(hmac::Key::new(hmac::HMAC_SHA256, key.serialized_der())));
        }
        let served = Arc::new(contents.certificate.served);
        self.served.send_if_modified(|known| {
            let same = known.as_ref().is_some_and(|known| known.cert == served.cert);
            if !same {
                *known = Some(served);
            }
            !same
        });
        self.authorities.send_if_modified(|known| {
            let same = known.as_ref() == Some(&trusted);
            if !same {
                *known = Some(trusted);
            }
            !same
        });
        Ok(())
    }
}

// === impl Certificates ===

impl Certificates {
    /// Returns when there is a certificate; handshakes fail before.
    pub async fn ready(&self) {
        let mut served = self.served.clone();
        if served.wait_for(Option::is_some).await.is_err() {
            // Who would bring one is gone: the program ends.
            std::future::pending::<()>().await;
        }
    }

    /// Whether there is one.
    pub fn is_ready(&self) -> bool {
        self.served.borrow().is_some()
    }

    /// The authorities that clients are to trust, in PEM; none before there is a certificate.
    pub fn authorities(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.authorities.clone()
    }

    /// A secret that only programs know which may read the Secret: those that are coordinators. It is made of the key of the
    /// authority that signs, and changes with it; each purpose has another one. None before there is a certificate.
    pub fn shared_secret(&self, purpose: &str) -> Option<[u8; 32]> {
        let key = self.secret.borrow().clone()?;
        hmac::sign(&key, purpose.as_bytes()).as_ref().try_into().ok()
    }

    /// Settings of a TLS server that speaks these protocols, the first one best. They stay good when certificates
    /// change.
    pub fn server_config(&self, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, rustls::Error> {
        self.config(alpn, WebPkiClientVerifier::no_client_auth())
    }

    /// The same of a server that shakes hands with clients of these authorities alone.
    pub fn server_config_for(
        &self,
        clients: ClientAuthorities,
        alpn: &[&[u8]],
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        self.config(alpn, Arc::new(clients))
    }

    fn config(
        &self,
        alpn: &[&[u8]],
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let asks = clients.offer_client_auth();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        if asks {
            // A session that is resumed is not verified again, though its authority may be believed no more.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served.borrow().clone()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}
