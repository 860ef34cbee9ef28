//! Whose certificates a server asks for: those that an authority in a file has signed. The file is read again when it changes, so that
//! an authority can be replaced without a restart.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tokio_util::sync::CancellationToken;

/// How often the file is read.
const READ_EVERY: Duration = Duration::from_secs(60);

/// No bundle of authorities is larger.
const LARGEST: u64 = 1024 * 1024;

/// The authorities whose clients may call. Copies share them.
#[derive(Clone, Debug)]
pub struct ClientAuthorities {
    file: Arc<PathBuf>,
    current: Arc<RwLock<Current>>,
}

#[derive(Clone, Debug)]
struct Current {
    text: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Why authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}; it must hold certificates of authorities in PEM", file.display())]
pub struct ClientAuthoritiesError {
    file: PathBuf,
    why: String,
}

// === impl ClientAuthorities ===

impl ClientAuthorities {
    /// Those in a file.
    pub fn read(file: &Path) -> Result<Self, ClientAuthoritiesError> {
        let current = Current::read(file)?;
        Ok(Self { file: Arc::new(file.to_owned()), current: Arc::new(RwLock::new(current)) })
    }

    /// Reads the file again and again, until stopped. While it cannot be read, what it said before holds.
    pub async fn follow(self, stop: CancellationToken) {
        let mut failed = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(READ_EVERY) => {}
            }
            let refreshed = self.refresh();
            match &refreshed {
                Ok(true) => {
                    tracing::info!(file = %self.file.display(), "other authorities of clients");
                }
                Err(error) if !failed => {
                    tracing::warn!(reason = "client-authorities", "{error}; the old ones hold");
                }
                Ok(false) | Err(_) => {}
            }
            failed = refreshed.is_err();
        }
    }

    /// Reads the file again; whether it says something else.
    fn refresh(&self) -> Result<bool, ClientAuthoritiesError> {
        let read = Current::read(&self.file)?;
        let mut current = self.current.write();
        let changed = current.text != read.text;
        if changed {
            *current = read;
        }
        Ok(changed)
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.current.read().verifier)
    }
}

// === impl Current ===

impl Current {
    fn read(file: &Path) -> Result<Self, ClientAuthoritiesError> {
        let error = |why: String| ClientAuthoritiesError { file: file.to_owned(), why };
        let mut text = Vec::new();
        let read = std::fs::File::open(file)
            .and_then(|opened| opened.take(LARGEST + 1).read_to_end(&mut text));
        read.map_err(|why| error(why.to_string()))?;
        if text.len() as u64 > LARGEST {
            return Err(error(format!("it has more than {LARGEST} bytes")));
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|why| error(why.to_string()))?;
            roots.add(certificate).map_err(|why| error(why.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|why| error(why.to_string()))?;
        Ok(Self { text, verifier })
    }
}

impl ClientCertVerifier for ClientAuthorities {
    /// None: a client need not know beforehand who is believed, and authorities change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verifier().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{Names, remake};
    use super::*;

    #[test]
    fn a_file_without_an_authority_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let error = ClientAuthorities::read(&file).unwrap_err().to_string();
        assert!(error.contains("ca.crt") && error.contains("PEM"), "{error}");
        for text in
            ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            std::fs::write(&file, text).unwrap();
            assert!(ClientAuthorities::read(&file).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_changes_is_believed_and_one_that_breaks_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let write = || {
            let bundle = remake(Timestamp::now(), &Names::new(["localhost"])).unwrap();
            std::fs::write(&file, bundle.authorities).unwrap();
        };
        write();
        let authorities = ClientAuthorities::read(&file).unwrap();
        assert!(!authorities.refresh().unwrap());
        write();
        assert!(authorities.refresh().unwrap());
        let before = authorities.current.read().text.clone();
        std::fs::write(&file, "broken").unwrap();
        assert!(authorities.refresh().is_err());
        assert_eq!(authorities.current.read().text, before);
    }
}
