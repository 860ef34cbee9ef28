//! Certificates: made, kept and renewed by the coordinator.
//!
//! ```text
//!   leader: plan ──step──▶ Secret ◀──watch── every replica ──▶ Certificates ──▶ webhooks, hub
//!                            └─ ca.crt ──▶ ConfigMap for agents, caBundle of webhook configurations
//! ```
//!
//! A certificate authority is replaced in two steps. First the next one is trusted beside the one that signs; a day
//! later, when everybody has heard of it, it signs. The old one stays trusted until it ends. So nobody ever meets a
//! certificate of an authority that it does not know.
//!
//! What is in this file and in `contents` and `issue` is pure but for the randomness of keys: time is a parameter.

pub mod clients;
mod contents;
mod issue;
pub mod reconciler;
mod secret;
pub mod serving;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

pub use clients::ClientAuthorities;
use contents::Contents;
pub use issue::{remake, renew};
pub use reconciler::CertReconciler;
pub use serving::Certificates;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How long a certificate lasts. It is renewed after two thirds of that.
pub const CERTIFICATE_LASTS: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How long an authority lasts.
pub const AUTHORITY_LASTS: SignedDuration = SignedDuration::from_hours(3650 * 24);

/// So long before an authority's end the next one is made.
pub const AUTHORITY_EARLY: SignedDuration = SignedDuration::from_hours(365 * 24);

/// So long an authority is trusted before it signs.
pub const ANNOUNCED: SignedDuration = DAY;

/// Everything is valid from a little before it is made: clocks differ.
pub const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// What the Secret holds, each in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Certificates of the authorities that are to be trusted; the one that signs comes first.
    pub authorities: String,
    /// Their keys: of the one that signs, and of the next one while it is only announced.
    pub authority_key: String,
    /// The server's certificate.
    pub certificate: String,
    /// The private key of the certificate.
    pub key: String,
}

/// What a certificate is good for: host names and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

/// From when and until when something is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
}

/// What is to be done with a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, and nothing before then.
    Keep {
        /// When to check again.
        again_at: Timestamp,
    },
    /// One step, see [`renew`]. Who trusts the bundle now, trusts what comes of it.
    Renew {
        /// What the step changes.
        step: RenewalStep,
    },
    /// All of it is to be made anew, see [`remake`]. Nobody trusts that until told.
    Remake {
        /// Why, for a person.
        why: String,
    },
}

/// One step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalStep {
    /// A new certificate by the same authority.
    Certificate,
    /// A new authority is to be trusted; it does not sign yet.
    Announce,
    /// The announced authority signs from now on.
    Adopt,
    /// An authority that has ended is not trusted any more.
    Forget,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A part of the bundle makes no sense.
    #[error("{field}: {why}; delete the Secret to have all of it made anew")]
    Unreadable {
        /// The key in the Secret.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A name cannot be in a certificate.
    #[error("{name:?} is no host name and no address: correct the setting of names")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// No certificate could be made.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// What is to be done with a bundle at this time, so that it is good for these names.
pub fn plan(now: Timestamp, bundle: Option<&Bundle>, names: &Names) -> Plan {
    let Some(bundle) = bundle else {
        return Plan::Remake { why: "there is none yet".to_owned() };
    };
    match Contents::read(bundle) {
        Ok(contents) => contents.plan(now, names),
        Err(error) => Plan::Remake { why: error.to_string() },
    }
}

// === impl Contents ===

impl Contents {
    fn plan(&self, now: Timestamp, names: &Names) -> Plan {
        let Self { current, others, certificate } = self;
        let next = self.next();
        if !current.life.holds(now) {
            return match next {
                Some(next) if next.life.holds(now) => Plan::Renew { step: RenewalStep::Adopt },
                _ => Plan::Remake { why: format!("the authority is valid {}", current.life) },
            };
        }
        // What serves comes first.
        let good = certificate.by_current && certificate.names == names.0;
        if !good || !certificate.life.holds(now) {
            return Plan::Renew { step: RenewalStep::Certificate };
        }
        let adopt_at = next.map(|next| after(after(next.life.from, SKEW), ANNOUNCED));
        if next.is_some_and(|next| next.life.holds(now)) && adopt_at.is_some_and(|at| at <= now) {
            return Plan::Renew { step: RenewalStep::Adopt };
        }
        if others.iter().any(|other| other.life.until <= now) {
            return Plan::Renew { step: RenewalStep::Forget };
        }
        let announce_at = after(current.life.until, -AUTHORITY_EARLY);
        if next.is_none() && announce_at <= now {
            return Plan::Renew { step: RenewalStep::Announce };
        }
        // A certificate that lasts as long as its authority cannot get better.
        let renew_at = match certificate.life.until < current.life.until {
            true => certificate.life.two_thirds(),
            false => certificate.life.until,
        };
        if renew_at <= now {
            return Plan::Renew { step: RenewalStep::Certificate };
        }
        let ends = others.iter().map(|other| other.life.until);
        let begin = next.map(|next| next.life.from);
        let announce_at = next.is_none().then_some(announce_at);
        let times = [Some(renew_at), Some(current.life.until), announce_at, adopt_at, begin];
        let again_at = times.into_iter().flatten().chain(ends).filter(|at| *at > now).min();
        Plan::Keep { again_at: again_at.unwrap_or(renew_at) }
    }
}

// === impl Names ===

impl Names {
    /// These; capitals and dots at the end do not matter.
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        let name = |name: T| match name.as_ref().parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => name.as_ref().trim_end_matches('.').to_ascii_lowercase(),
        };
        Self(names.into_iter().map(name).collect())
    }

    /// Those of a service, and more.
    pub fn of_service<T: AsRef<str>>(
        service: &str,
        namespace: &str,
        more: impl IntoIterator<Item = T>,
    ) -> Self {
        let short = format!("{service}.{namespace}.svc");
        let mut names = Self::new([format!("{short}.cluster.local"), short]);
        names.0.extend(Self::new(more).0);
        names
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

// === impl Life ===

impl Life {
    /// Whether this moment is in it.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    fn two_thirds(&self) -> Timestamp {
        after(self.from, self.until.duration_since(self.from) / 3 * 2)
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} until {}", self.from, self.until)
    }
}

/// A time that never overflows.
fn after(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

// === impl Bundle ===

impl fmt::Debug for Bundle {
    /// Leaves the keys out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authorities, certificate, authority_key: _, key: _ } = self;
        f.debug_struct("Bundle")
            .field("authorities", authorities)
            .field("certificate", certificate)
            .finish_non_exhaustive()
    }
}

// === impl CertsError ===

impl CertsError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::Name { .. } => "name",
            Self::Make(_) => "make",
        }
    }
}
