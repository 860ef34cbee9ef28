//! What one coordinator tells another of the caller whose request it hands on, with a proof that it is a coordinator.
//!
//! All coordinators, and nobody else, can read the Secret with their authority's key. The proof is a MAC over the caller's address and
//! all of the request with a key made of that. Neither the key nor a token of the coordinator leaves it: the connection is not encrypted.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_proto::delivery::Digest;
use parking_lot::Mutex;
use ring::hmac;
use tokio::time::Instant;

use super::remembered::Remembered;

/// The header with the proof.
pub const HEADER: &str = "muster-handed-on";

/// What the key is for.
pub const PURPOSE: &str = "muster: requests to the DI server that are handed on, v1";

/// How far the clocks of coordinators may be apart, with the way of a request.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// A proof counts once. It is remembered for as long as it could count again.
const REMEMBERED: Duration = Duration::from_secs(120);

/// Proofs that are remembered: five hundred writes a second that count. Above that the leader asks to try again.
const MOST_REMEMBERED: usize = 65_536;

/// What is proved with the address: all that the request says.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path.
    pub path: &'a str,
    /// Its query, without the question mark.
    pub query: &'a str,
    /// Its bearer token; empty if it has none.
    pub token: &'a str,
    /// Its body.
    pub body: &'a [u8],
}

/// Why the word of whoever hands on a request does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnprovenError {
    /// There is none that can be read.
    #[error("it has no proof, as this version of coordinators gives it")]
    Missing,
    /// It was given at another time.
    #[error("its proof is too old, or the clocks of the coordinators differ by more than a minute")]
    Old,
    /// It was made with another key, or of another request.
    #[error("its proof is not that of a coordinator")]
    Wrong,
    /// It has counted already.
    #[error("its proof was used before, or too many were")]
    Used,
}

/// Proofs that have counted.
#[derive(Debug)]
pub struct Proofs(Mutex<Remembered<u128, ()>>);

// === impl Content ===

impl Content<'_> {
    /// Each part with its length, so that none can pass for the end of another.
    fn bytes(&self, millis: i64, nonce: u128, caller: &str) -> Vec<u8> {
        let Self { method, path, query, token, body } = self;
        let (millis, nonce) = (millis.to_be_bytes(), nonce.to_be_bytes());
        let digest = Digest::of(body);
        let parts: [&[u8]; 8] = [
            &millis,
            &nonce,
            caller.as_bytes(),
            method.as_bytes(),
            path.as_bytes(),
            query.as_bytes(),
            token.as_bytes(),
            digest.as_bytes(),
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }

    /// The header that tells the leader who called.
    pub fn prove(&self, key: &[u8; 32], caller: IpAddr, nonce: u128, now: Timestamp) -> String {
        let (millis, caller) = (now.as_millisecond(), caller.to_string());
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let tag = hmac::sign(&key, &self.bytes(millis, nonce, &caller));
        let tag: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("v1 {millis} {nonce:032x} {caller} {tag}")
    }
}

// === impl Proofs ===

impl Default for Proofs {
    fn default() -> Self {
        Self(Mutex::new(Remembered::new(MOST_REMEMBERED)))
    }
}

impl Proofs {
    /// The caller that such a header tells of, if a coordinator says so of this request and now; and what this proof is called.
    pub fn caller(
        header: &str,
        key: &[u8; 32],
        content: &Content<'_>,
        now: Timestamp,
    ) -> Result<(IpAddr, u128), UnprovenError> {
        let mut words = header.split(' ');
        let mut word = || words.next().ok_or(UnprovenError::Missing);
        if word()? != "v1" {
            return Err(UnprovenError::Missing);
        }
        let (millis, nonce, caller, tag) = (word()?, word()?, word()?, word()?);
        let millis: i64 = millis.parse().map_err(|_| UnprovenError::Wrong)?;
        let nonce = u128::from_str_radix(nonce, 16).map_err(|_| UnprovenError::Wrong)?;
        let tag = unhex(tag).ok_or(UnprovenError::Wrong)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::verify(&key, &content.bytes(millis, nonce, caller), &tag)
            .map_err(|_| UnprovenError::Wrong)?;
        let at = Timestamp::from_millisecond(millis).map_err(|_| UnprovenError::Wrong)?;
        if now.duration_since(at).abs() > SKEW {
            return Err(UnprovenError::Old);
        }
        let caller = caller.parse().map_err(|_| UnprovenError::Wrong)?;
        Ok((caller, nonce))
    }

    /// Lets this proof count, once. Only requests that count come so far: strangers use up no room.
    pub fn spend(&self, proof: u128) -> Result<(), UnprovenError> {
        let (mut known, now) = (self.0.lock(), Instant::now());
        let is_new = known.get(&proof, now).is_none() && known.put(proof, (), REMEMBERED, now);
        is_new.then_some(()).ok_or(UnprovenError::Used)
    }
}

/// 32 bytes, as hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn content() -> Content<'static> {
        Content { method: "POST", path: "/v1alpha1/replicas", query: "", token: "", body: b"{}" }
    }

    #[test]
    fn only_a_coordinator_is_believed_about_its_caller_and_only_of_this_request_now_and_once() {
        let (caller, now): (IpAddr, _) = ("10.0.0.1".parse().unwrap(), Timestamp::UNIX_EPOCH);
        let header = content().prove(&KEY, caller, 1, now);
        let check = |header: &str, key: &[u8; 32], content: &Content<'_>, now| {
            Proofs::caller(header, key, content, now)
        };
        assert_eq!(check(&header, &KEY, &content(), now), Ok((caller, 1)));
        let wrong = Err(UnprovenError::Wrong);
        assert_eq!(check(&header, &[8; 32], &content(), now), wrong, "another key");
        for other in [
            Content { method: "DELETE", ..content() },
            Content { path: "/v1alpha1/replicas/failed", ..content() },
            Content { query: "a", ..content() },
            Content { token: "t", ..content() },
            Content { body: b"[]", ..content() },
        ] {
            assert_eq!(check(&header, &KEY, &other, now), wrong, "{other:?}");
        }
        let forged = header.replace("10.0.0.1", "10.0.0.2");
        assert_eq!(check(&forged, &KEY, &content(), now), wrong, "another caller");
        for (late, expected) in
            [(60, Ok((caller, 1))), (61, Err(UnprovenError::Old)), (-61, Err(UnprovenError::Old))]
        {
            let then = now + SignedDuration::from_secs(late);
            assert_eq!(check(&header, &KEY, &content(), then), expected, "{late} s later");
        }
        for bare in ["1", "", "v1", "v2 0 0 10.0.0.1 00"] {
            assert_eq!(check(bare, &KEY, &content(), now), Err(UnprovenError::Missing), "{bare}");
        }
        for odd in ["v1 x 0 10.0.0.1 00", "v1 0 z 10.0.0.1 00", "v1 0 0 10.0.0.1 é"] {
            assert_eq!(check(odd, &KEY, &content(), now), wrong, "{odd}");
        }
        let proofs = Proofs::default();
        assert_eq!(proofs.spend(1), Ok(()));
        assert_eq!(proofs.spend(1), Err(UnprovenError::Used));
        assert_eq!(proofs.spend(2), Ok(()));
    }
}
