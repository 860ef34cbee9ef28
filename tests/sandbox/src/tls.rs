//! Certificates for servers on loopback: an authority made on the spot and one certificate of it.

use std::sync::Arc;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// A server's certificate and the authority that clients must trust for it.
#[derive(Clone)]
pub struct Identity {
    /// The authority's certificate, PEM.
    pub authority: String,
    /// The server's certificate, PEM.
    pub certificate: String,
    /// Its private key, PEM.
    pub key: String,
    /// What a TLS server needs.
    pub config: Arc<ServerConfig>,
}

// === impl Identity ===

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Identity {
    /// Makes both anew. `names` are host names and addresses that the certificate is good for.
    pub fn make(names: &[&str]) -> anyhow::Result<Self> {
        let authority_key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "muster-sandbox");
        let authority = params.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "muster-sandbox-server");
        let certificate = server.signed_by(&key, &issuer)?;
        let private = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|error| anyhow::anyhow!("the private key cannot be used: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("TLS versions")?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        Ok(Self { authority, certificate, key, config: Arc::new(config) })
    }
}
