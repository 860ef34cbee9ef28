//! What is in a bundle.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::{Bundle, CertsError, Life};

/// No part of a bundle is longer; ours are a tenth of it.
const LARGEST: usize = 64 * 1024;

/// So many authorities are read; three are needed at most.
const MOST_AUTHORITIES: usize = 8;

/// A bundle that was read.
pub(super) struct Contents {
    /// The authority that signs.
    pub(super) current: Authority,
    /// The others that are trusted.
    pub(super) others: Vec<Authority>,
    pub(super) certificate: Certificate,
}

pub(super) struct Authority {
    pub(super) der: CertificateDer<'static>,
    pub(super) life: Life,
    /// Only of the one that signs and of the next one.
    pub(super) key: Option<KeyPair>,
}

pub(super) struct Certificate {
    pub(super) life: Life,
    pub(super) names: BTreeSet<String>,
    /// Whether the current authority has signed it.
    pub(super) by_current: bool,
    /// To be served.
    pub(super) served: CertifiedKey,
}

// === impl Contents ===

impl Contents {
    /// Reads all parts, and checks that keys and certificates belong together.
    pub(super) fn read(bundle: &Bundle) -> Result<Self, CertsError> {
        let mut keys = keys(&bundle.authority_key, "ca.key")?;
        let mut authorities = Vec::new();
        for der in certificates(&bundle.authorities, "ca.crt")? {
            let parsed = parse(&der, "ca.crt")?;
            if !parsed.is_ca() {
                return Err(unreadable("ca.crt", "it holds a certificate of no authority"));
            }
            let public = &*parsed.public_key().subject_public_key.data;
            let key = keys.iter().position(|key| key.der_bytes() == public);
            let (life, key) = (life(&parsed), key.map(|at| keys.swap_remove(at)));
            authorities.push(Authority { der, life, key });
        }
        if authorities.is_empty() || authorities.len() > MOST_AUTHORITIES {
            let why = format!("it holds {} certificates", authorities.len());
            return Err(unreadable("ca.crt", why));
        }
        let current = authorities.remove(0);
        if current.key.is_none() {
            return Err(unreadable("ca.key", "it does not fit the first certificate of ca.crt"));
        }
        let certificate = Certificate::read(bundle, &current)?;
        Ok(Self { current, others: authorities, certificate })
    }

    /// The authority that signs after the current one.
    pub(super) fn next(&self) -> Option<&Authority> {
        self.others.iter().find(|other| other.key.is_some())
    }

    /// The authorities in PEM, without whatever else the bundle holds.
    pub(super) fn authorities(&self) -> String {
        let all = std::iter::once(&self.current).chain(&self.others);
        all.map(|authority| pem(&authority.der)).collect()
    }
}

// === impl Certificate ===

impl Certificate {
    fn read(bundle: &Bundle, current: &Authority) -> Result<Self, CertsError> {
        let chain = certificates(&bundle.certificate, "tls.crt")?;
        let Some(first) = chain.first() else {
            return Err(unreadable("tls.crt", "it holds no certificate"));
        };
        let (first, authority) = (first.clone(), current.der.clone());
        let parsed = parse(&first, "tls.crt")?;
        let authority = parse(&authority, "ca.crt")?;
        let by_current = parsed.issuer().as_raw() == authority.subject().as_raw()
            && parsed.verify_signature(Some(authority.public_key())).is_ok();
        let names = names(&parsed);
        bounded(&bundle.key, "tls.key")?;
        let key = PrivateKeyDer::from_pem_slice(bundle.key.as_bytes())
            .map_err(|error| unreadable("tls.key", error))?;
        let provider = rustls::crypto::ring::default_provider();
        let served = CertifiedKey::from_der(chain, key, &provider)
            .map_err(|error| unreadable("tls.key", error))?;
        Ok(Self { life: life(&parsed), names, by_current, served })
    }
}

/// A certificate in PEM.
pub(super) fn pem(der: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn unreadable(field: &'static str, why: impl ToString) -> CertsError {
    CertsError::Unreadable { field, why: why.to_string() }
}

fn bounded(text: &str, field: &'static str) -> Result<(), CertsError> {
    match text.len() > LARGEST {
        true => Err(unreadable(field, format!("it is longer than {LARGEST} bytes"))),
        false => Ok(()),
    }
}

fn certificates(
    text: &str,
    field: &'static str,
) -> Result<Vec<CertificateDer<'static>>, CertsError> {
    bounded(text, field)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    all.map_err(|error| unreadable(field, error))
}

fn keys(text: &str, field: &'static str) -> Result<Vec<KeyPair>, CertsError> {
    bounded(text, field)?;
    let mut keys = Vec::new();
    for der in PrivateKeyDer::pem_slice_iter(text.as_bytes()) {
        let der = der.map_err(|error| unreadable(field, error))?;
        keys.push(KeyPair::try_from(&der).map_err(|error| unreadable(field, error))?);
    }
    Ok(keys)
}

fn parse<'a>(
    der: &'a CertificateDer<'_>,
    field: &'static str,
) -> Result<X509Certificate<'a>, CertsError> {
    let (_, parsed) = X509Certificate::from_der(der).map_err(|error| unreadable(field, error))?;
    Ok(parsed)
}

fn life(certificate: &X509Certificate<'_>) -> Life {
    let validity = certificate.validity();
    let time = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN);
    // Until the end of its last second.
    let until = validity.not_after.timestamp().saturating_add(1);
    Life { from: time(validity.not_before.timestamp()), until: time(until) }
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), *bytes) {
            (Ok(four), _) => IpAddr::from(four).to_string(),
            (_, bytes) => match <[u8; 16]>::try_from(bytes) {
                Ok(sixteen) => IpAddr::from(sixteen).to_string(),
                Err(_) => format!("{bytes:?}"),
            },
        },
        other => format!("{other:?}"),
    };
    names.value.general_names.iter().map(name).collect()
}
