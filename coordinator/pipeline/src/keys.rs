//! Keys of a job, made of bytes that the caller has drawn.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p521::SecretKey;
use p521::elliptic_curve::sec1::ToSec1Point as _;
use p521::pkcs8::LineEnding;
use sha2::{Digest, Sha256, Sha512};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::plugin::Fault;

const Z85: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// What keys are made of.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Random bytes, new for each pass. Without them no SSH key can be made.
    pub seed: Option<[u8; 64]>,
    /// Whether a Flux job's key is made of its uid, as the original does: whoever can read the job can then make the key.
    pub curve_of_uid: bool,
}

/// A pair of SSH keys, as OpenSSH keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshPair {
    /// The private key: PEM.
    pub private: String,
    /// The public key: one line.
    pub public: String,
}

/// A pair of CURVE keys, in Z85.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurvePair {
    /// The public key.
    pub public: String,
    /// The secret key.
    pub secret: String,
}

// === impl Keys ===

impl Keys {
    /// A pair of SSH keys: ECDSA over P-521.
    pub fn ssh(&self) -> Result<SshPair, Fault> {
        let seed = self.seed.ok_or_else(|| Fault::new("no random bytes to make an SSH key of"))?;
        // A number that is no key is drawn again: one in 2^260.
        let drawn = (0u8..4).find_map(|round| scalar(&seed, round));
        let key = drawn.ok_or_else(|| Fault::new("no SSH key could be made of these bytes"))?;
        let private = key
            .to_sec1_pem(LineEnding::LF)
            .map_err(|error| Fault::new(format!("the SSH key cannot be written: {error}")))?;
        let point = key.public_key().to_sec1_point(false);
        let mut blob = Vec::new();
        for part in [&b"ecdsa-sha2-nistp521"[..], b"nistp521", point.as_bytes()] {
            blob.extend(u32::try_from(part.len()).unwrap_or_default().to_be_bytes());
            blob.extend(part);
        }
        let public = format!("ecdsa-sha2-nistp521 {}\n", STANDARD.encode(blob));
        Ok(SshPair { private: private.to_string(), public })
    }

    /// The CURVE keys of a job.
    pub fn curve(&self, uid: &str) -> CurvePair {
        let mut digest = Sha256::new();
        if let (Some(seed), false) = (&self.seed, self.curve_of_uid) {
            digest.update(seed);
        }
        digest.update(uid.as_bytes());
        let secret: [u8; 32] = digest.finalize().into();
        let public = PublicKey::from(&StaticSecret::from(secret));
        CurvePair { public: z85(public.as_bytes()), secret: z85(&secret) }
    }
}

/// 521 bits of the seed, if they are a key.
fn scalar(seed: &[u8; 64], round: u8) -> Option<SecretKey> {
    let part =
        |number: u8| Sha512::new().chain_update(seed).chain_update([round, number]).finalize();
    let mut bytes = [0u8; 66];
    let drawn = part(0).into_iter().chain(part(1));
    bytes.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
    if let Some(first) = bytes.first_mut() {
        *first &= 1;
    }
    SecretKey::from_slice(&bytes).ok()
}

/// The text of bytes whose number is a multiple of four.
fn z85(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 5 / 4);
    for chunk in bytes.chunks(4) {
        let number = chunk.iter().fold(0u32, |number, byte| (number << 8) | u32::from(*byte));
        for power in [52_200_625u32, 614_125, 7225, 85, 1] {
            let digit = usize::try_from(number / power % 85).unwrap_or_default();
            text.extend(Z85.get(digit).map(|byte| char::from(*byte)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_the_text_that_zeromq_prints() {
        assert_eq!(z85(&[0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]), "HelloWorld");
    }

    #[test]
    fn the_same_bytes_make_the_same_keys_and_others_make_others() {
        let keys = |byte: u8| Keys { seed: Some([byte; 64]), curve_of_uid: false };
        assert_eq!(keys(1).ssh(), keys(1).ssh());
        assert_ne!(keys(1).ssh(), keys(2).ssh());
        assert_ne!(keys(1).curve("a"), keys(2).curve("a"));
        let pair = keys(1).ssh().unwrap();
        assert!(pair.private.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{}", pair.private);
        assert!(pair.public.starts_with("ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjE"));
    }

    #[test]
    fn without_bytes_there_is_no_ssh_key() {
        assert!(Keys::default().ssh().is_err());
    }
}
