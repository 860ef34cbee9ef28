//! The key that signs tokens: ES256 by ring, made when the server starts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use muster_objects::status::Status;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What stands before a P-256 point in a public key's DER.
const DER_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Signs and verifies JWTs.
#[derive(Debug)]
pub(super) struct Signer {
    key: EcdsaKeyPair,
    id: String,
    random: SystemRandom,
}

/// Why a token was not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unopened {
    /// It is no token of this issuer.
    Foreign,
    /// It says it is ours, but is not.
    Forged(&'static str),
}

// === impl Signer ===

impl Signer {
    pub(super) fn new() -> Result<Self, Status> {
        let failed = |_| Status::internal("cannot make a key for tokens");
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .map_err(|_| Status::internal("cannot read the key for tokens"))?;
        let mut hash = Sha256::new();
        hash.update(DER_PREFIX);
        hash.update(key.public_key().as_ref());
        let id = BASE64.encode(hash.finalize());
        Ok(Self { key, id, random })
    }

    /// The claims as a signed JWT.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, Status> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let body = format!("{}.{}", encode(&header), encode(claims));
        let signature = self.key.sign(&self.random, body.as_bytes());
        let signature = signature.map_err(|_| Status::internal("failed to generate token"))?;
        Ok(format!("{body}.{}", BASE64.encode(signature.as_ref())))
    }

    /// The claims of a JWT that this key signed.
    pub(super) fn open(&self, token: &str, issuer: &str) -> Result<Value, Unopened> {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else { return Err(Unopened::Foreign) };
        let claims = decode(claims).ok_or(Unopened::Foreign)?;
        if claims["iss"] != issuer {
            return Err(Unopened::Foreign);
        }
        let (Some(header), Ok(signature)) = (decode(header), BASE64.decode(signature)) else {
            return Err(Unopened::Foreign);
        };
        if header["kid"].as_str().is_some_and(|kid| kid != self.id) {
            return Err(Unopened::Forged("invalid signature, no keys found"));
        }
        let body = &token.as_bytes()[..token.rfind('.').unwrap_or_default()];
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref())
            .verify(body, &signature)
            .map_err(|_| Unopened::Forged("go-jose/go-jose: error in cryptographic primitive"))?;
        Ok(claims)
    }

    /// The public key as a JSON web key set.
    pub(super) fn jwks(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(32.min(point.len().max(1) - 1));
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        }]})
    }
}

fn encode(value: &Value) -> String {
    BASE64.encode(value.to_string())
}

fn decode(text: &str) -> Option<Value> {
    serde_json::from_slice(&BASE64.decode(text).ok()?).ok()
}
