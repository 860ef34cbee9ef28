//! Makes keys and certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use super::contents::{Authority, Contents, pem};
use super::{
    AUTHORITY_LASTS, Bundle, CERTIFICATE_LASTS, CertsError, Life, Names, RenewalStep, SKEW, after,
};

/// No certificate ends later: what comes after is no date to some.
const LAST_SECOND: i64 = 250_000_000_000;

/// A new authority, and a certificate by it.
pub fn remake(now: Timestamp, names: &Names) -> Result<Bundle, CertsError> {
    let authority = authority(now)?;
    bundle(now, &authority, &[], None, names)
}

/// Takes a step of [`super::plan`].
pub fn renew(
    step: RenewalStep,
    now: Timestamp,
    old: &Bundle,
    names: &Names,
) -> Result<Bundle, CertsError> {
    let mut contents = Contents::read(old)?;
    match step {
        RenewalStep::Certificate => {}
        RenewalStep::Announce => contents.others.insert(0, authority(now)?),
        RenewalStep::Adopt => {
            let others = &mut contents.others;
            let Some(at) = others.iter().position(|other| other.key.is_some()) else {
                let why = "no authority was announced".to_owned();
                return Err(CertsError::Unreadable { field: "ca.key", why });
            };
            let next = others.remove(at);
            let before = std::mem::replace(&mut contents.current, next);
            // It is trusted, but signs no more.
            others.insert(0, Authority { key: None, ..before });
        }
        RenewalStep::Forget => contents.others.retain(|other| now < other.life.until),
    }
    let keep = matches!(step, RenewalStep::Announce | RenewalStep::Forget).then_some(old);
    bundle(now, &contents.current, &contents.others, keep, names)
}

/// Puts it together; with a certificate that is there, or a new one.
fn bundle(
    now: Timestamp,
    current: &Authority,
    others: &[Authority],
    keep: Option<&Bundle>,
    names: &Names,
) -> Result<Bundle, CertsError> {
    let all = || std::iter::once(current).chain(others);
    let (certificate, key) = match keep {
        Some(old) => (old.certificate.clone(), old.key.clone()),
        None => certificate(now, current, names)?,
    };
    Ok(Bundle {
        authorities: all().map(|authority| pem(&authority.der)).collect(),
        authority_key: all().filter_map(|a| a.key.as_ref()).map(KeyPair::serialize_pem).collect(),
        certificate,
        key,
    })
}

fn authority(now: Timestamp) -> Result<Authority, CertsError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    let life = lasts(&mut params, now, after(now, AUTHORITY_LASTS));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // Each has a name of its own: two of one name are mistaken for each other.
    let mark: String = Sha256::digest(key.der_bytes())[..8].iter().map(hex).collect();
    name(&mut params, &format!("muster-coordinator-ca-{mark}"));
    let der: CertificateDer<'static> = params.self_signed(&key)?.der().clone();
    Ok(Authority { der, life, key: Some(key) })
}

fn certificate(
    now: Timestamp,
    by: &Authority,
    names: &Names,
) -> Result<(String, String), CertsError> {
    let Some(signs) = &by.key else {
        let why = "the authority has no key".to_owned();
        return Err(CertsError::Unreadable { field: "ca.key", why });
    };
    let wanted: Vec<String> = names.iter().map(str::to_owned).collect();
    if let Some(bad) = wanted.iter().find(|name| !is_name(name)) {
        return Err(CertsError::Name { name: bad.clone() });
    }
    let mut params = CertificateParams::new(wanted)?;
    // Nothing lasts longer than what vouches for it; an authority's last second is before its end.
    let until = after(now, CERTIFICATE_LASTS).min(after(by.life.until, -SECOND));
    lasts(&mut params, now, until);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    name(&mut params, "muster-coordinator");
    let issuer = Issuer::from_ca_cert_der(&by.der, signs)?;
    let key = KeyPair::generate()?;
    let made = params.signed_by(&key, &issuer)?;
    Ok((pem(made.der()), key.serialize_pem()))
}

const SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

/// Sets from when and until when it is valid; X.509 knows whole seconds, and the last one is part of it.
fn lasts(params: &mut CertificateParams, now: Timestamp, last: Timestamp) -> Life {
    let seconds = |time: Timestamp| time.as_second().clamp(0, LAST_SECOND);
    let (from, last) = (seconds(after(now, -SKEW)), seconds(last));
    let date = |seconds: i64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds as u64);
    (params.not_before, params.not_after) = (date(from), date(last));
    let time = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    Life { from: time(from), until: time(last + 1) }
}

fn name(params: &mut CertificateParams, name: &str) {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
}

fn hex(byte: &u8) -> String {
    format!("{byte:02x}")
}

/// Labels of letters, digits and dashes, the first may be a star; or an address.
fn is_name(name: &str) -> bool {
    let label = |(at, label): (usize, &str)| {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty()
            && label.len() <= 63
            && (label.chars().all(good) || (at == 0 && label == "*"))
    };
    name.parse::<std::net::IpAddr>().is_ok()
        || (name.len() <= 253 && name.split('.').enumerate().all(label))
}
