//! What the Lease says, and what is written into it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::names::{LEADER_ADDRESS, LEADER_EPOCH};

/// No believable epoch is greater: as seconds since 1970 it is some thirty thousand years away.
pub const LARGEST_EPOCH: u64 = 1_000_000_000_000;

/// No believable address is longer.
const LONGEST_ADDRESS: usize = 512;

/// What a Lease says, as far as it can be believed. Two that are equal mean that nobody has renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who leads.
    pub holder: Option<String>,
    /// Where the leader's hub is.
    pub address: Option<String>,
    /// The epoch; nothing if there is none or if it is no believable number.
    pub epoch: Option<u64>,
    /// How long others must wait.
    pub duration: Option<Duration>,
    /// When the holder renewed it, by the holder's clock: good only to see that it has.
    pub renewed: Option<Timestamp>,
    /// A new object under the old name has another one.
    pub uid: Option<String>,
}

/// What a leader writes about itself.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who it is.
    pub identity: &'a str,
    /// Where its hub is.
    pub address: &'a str,
    /// Its epoch.
    pub epoch: u64,
    /// How long others must wait.
    pub lease: Duration,
    /// What its clock shows.
    pub wall: Timestamp,
}

/// The Lease without a leader: the last one has given it back, and its fence is down.
pub fn released(found: &Lease) -> Lease {
    let mut lease = found.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.acquire_time = None;
    spec.renew_time = None;
    spec.lease_duration_seconds = None;
    if let Some(annotations) = &mut lease.metadata.annotations {
        annotations.remove(LEADER_ADDRESS);
    }
    lease
}

fn micro(time: Timestamp) -> MicroTime {
    MicroTime(time)
}

// === impl Record ===

impl Record {
    /// What the Lease says. What cannot be understood counts as not said.
    pub fn read(lease: &Lease) -> Self {
        let annotation = |name: &str| lease.metadata.annotations.as_ref()?.get(name);
        let absent = LeaseSpec::default();
        let spec = lease.spec.as_ref().unwrap_or(&absent);
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            address: annotation(LEADER_ADDRESS)
                .filter(|text| text.starts_with("https://") && text.len() <= LONGEST_ADDRESS)
                .cloned(),
            epoch: annotation(LEADER_EPOCH)
                .and_then(|text| text.parse().ok())
                .filter(|epoch| *epoch <= LARGEST_EPOCH),
            duration: seconds.map(Duration::from_secs),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            uid: lease.metadata.uid.clone(),
        }
    }

    /// Whether it was given back, or never held. Somebody who only deletes the holder by hand does not end its fence.
    pub fn is_free(&self) -> bool {
        self.holder.is_none() && self.renewed.is_none()
    }
}

// === impl Claim ===

impl Claim<'_> {
    /// A Lease that was not there.
    pub fn created(&self, name: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        self.write(&mut lease, true);
        lease.spec.get_or_insert_default().lease_transitions = Some(0);
        lease
    }

    /// The Lease, now with a new leader.
    pub fn taken(&self, found: &Lease) -> Lease {
        let mut lease = found.clone();
        let spec = lease.spec.get_or_insert_default();
        let before = spec.lease_transitions.unwrap_or(0).max(0);
        let again = spec.holder_identity.as_deref() == Some(self.identity);
        spec.lease_transitions = Some(before.saturating_add(i32::from(!again)));
        self.write(&mut lease, true);
        lease
    }

    /// The Lease, renewed. Its time differs from the one before whatever the clock shows, since others look for that.
    pub fn renewed(&self, found: &Lease) -> Lease {
        let mut lease = found.clone();
        self.write(&mut lease, false);
        lease
    }

    fn write(&self, lease: &mut Lease, begins: bool) {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(LEADER_EPOCH.to_owned(), self.epoch.to_string());
        annotations.insert(LEADER_ADDRESS.to_owned(), self.address.to_owned());
        let spec = lease.spec.get_or_insert_default();
        let seconds = self.lease.as_secs() + u64::from(self.lease.subsec_nanos() > 0);
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX).max(1));
        spec.holder_identity = Some(self.identity.to_owned());
        // The Lease keeps microseconds.
        let microseconds = |time: Timestamp| time.as_microsecond();
        let mut now = self.wall;
        if spec.renew_time.as_ref().is_some_and(|old| microseconds(old.0) == microseconds(now)) {
            now = now.saturating_add(SignedDuration::from_micros(1)).unwrap_or(now);
        }
        if begins || spec.acquire_time.is_none() {
            spec.acquire_time = Some(micro(now));
        }
        spec.renew_time = Some(micro(now));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn wall() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn claim(identity: &str) -> Claim<'_> {
        let lease = Duration::from_millis(2_500);
        Claim { identity, address: "https://a:1", epoch: 7, lease, wall: wall() }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let lease = claim("a").created("muster");
        let spec = lease.spec.clone().unwrap();
        assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(0), Some(3)));
        assert_eq!(
            (&spec.acquire_time, &spec.renew_time),
            (&Some(micro(wall())), &spec.acquire_time)
        );
        let expected = Record {
            holder: Some("a".into()),
            address: Some("https://a:1".into()),
            epoch: Some(7),
            duration: Some(Duration::from_secs(3)),
            renewed: Some(wall()),
            uid: None,
        };
        assert_eq!(Record::read(&lease), expected);
    }

    #[test]
    fn people_see_when_it_was_acquired_and_how_often_it_changed_hands() {
        let first = claim("a").created("muster");
        let renewed = claim("a").renewed(&first);
        let spec = renewed.spec.clone().unwrap();
        assert_eq!(spec.acquire_time, Some(micro(wall())));
        assert_ne!(spec.renew_time, spec.acquire_time, "a clock that stands still is no excuse");
        assert_eq!(spec.lease_transitions, Some(0));
        let transitions = |lease: &Lease| lease.spec.as_ref().unwrap().lease_transitions.unwrap();
        assert_eq!(transitions(&claim("a").taken(&renewed)), 0);
        let other = claim("b").taken(&renewed);
        assert_eq!(transitions(&other), 1);
        let free = released(&other);
        assert!(Record::read(&free).is_free());
        assert_eq!((Record::read(&free).epoch, Record::read(&free).address), (Some(7), None));
        assert_eq!(transitions(&claim("b").taken(&free)), 2);
    }

    #[test]
    fn labels_and_annotations_of_others_stay() {
        let mut lease = claim("a").created("muster");
        lease.metadata.labels = Some(BTreeMap::from([("app".into(), "muster".into())]));
        lease.metadata.resource_version = Some("12".into());
        for written in [claim("b").taken(&lease), claim("a").renewed(&lease), released(&lease)] {
            assert_eq!(written.metadata.labels, lease.metadata.labels);
            assert_eq!(written.metadata.resource_version, lease.metadata.resource_version);
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_said() {
        assert_eq!(Record::read(&Lease::default()), Record::default());
        for (epoch, address) in [
            ("", ""),
            ("seven", "http://plain:1"),
            ("-1", "a:1"),
            ("1000000000001", "javascript:1"),
            ("99999999999999999999999", &format!("https://{}", "a".repeat(600))),
        ] {
            let mut lease = claim("a").created("muster");
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(LEADER_EPOCH.to_owned(), epoch.to_owned());
            annotations.insert(LEADER_ADDRESS.to_owned(), address.to_owned());
            let spec = lease.spec.get_or_insert_default();
            spec.lease_duration_seconds = Some(-3);
            spec.lease_transitions = Some(i32::MIN);
            let record = Record::read(&lease);
            assert_eq!((record.epoch, record.address, record.duration), (None, None, None));
            let taken = claim("b").taken(&lease).spec.unwrap();
            assert_eq!((taken.lease_transitions, taken.lease_duration_seconds), (Some(1), Some(3)));
        }
    }
}
