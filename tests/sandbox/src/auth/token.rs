//! What a presented token proves: our own JWTs, and the fixed tokens given when the server was built.

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use serde_json::Value;

use super::signer::Unopened;
use super::{Auth, ISSUER, User};
use crate::store::Store;

/// How far two clocks may differ.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);
const GONE: &str = "service account token has been invalidated";
const UNKNOWN: &str = "invalid bearer token";
const EXTRA: &str = "authentication.kubernetes.io";

/// A valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Valid {
    pub(super) user: User,
    /// The audiences that both the token and the asker name.
    pub(super) audiences: Vec<String>,
}

impl Auth {
    /// Whose token this is, for one of the audiences; or why it is not valid, as a TokenReview says it.
    pub(super) fn check(
        &self,
        token: &str,
        audiences: &[String],
        store: &Store,
    ) -> Result<Valid, String> {
        if let Some(user) = self.statics.get(token) {
            let common = intersect(&self.audiences, audiences);
            // Tokens that know no audience are good for the API's own only.
            return match common.is_empty() {
                true => Err(UNKNOWN.to_owned()),
                false => Ok(Valid { user: user.clone(), audiences: common }),
            };
        }
        let claims = match self.signer.open(token, ISSUER) {
            Ok(claims) => claims,
            Err(Unopened::Foreign) => return Err(UNKNOWN.to_owned()),
            Err(Unopened::Forged(why)) => return Err(format!("[{UNKNOWN}, {why}]")),
        };
        self.admit(&claims, audiences, store).map_err(|why| format!("[{UNKNOWN}, {why}]"))
    }

    fn admit(&self, claims: &Value, wanted: &[String], store: &Store) -> Result<Valid, String> {
        let own: Vec<String> = strings(&claims["aud"]);
        let audiences = intersect(&own, wanted);
        if audiences.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&own),
                quoted(wanted)
            ));
        }
        let now = self.clock.now();
        in_time(claims, now)?;
        let user = bearer_of(claims, now, store)?;
        Ok(Valid { user, audiences })
    }
}

fn in_time(claims: &Value, now: Timestamp) -> Result<(), String> {
    let at = |claim: &str| claims[claim].as_i64().and_then(|s| Timestamp::from_second(s).ok());
    let late = now.saturating_add(LEEWAY).unwrap_or(Timestamp::MAX);
    let early = now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN);
    if at("nbf").is_some_and(|nbf| late < nbf) {
        return Err("service account token is not valid yet".into());
    }
    if at("exp").is_none_or(|exp| early > exp) {
        return Err("service account token has expired".into());
    }
    if at("iat").is_some_and(|iat| late < iat) {
        return Err("service account token is issued in the future".into());
    }
    Ok(())
}

/// The service account of the claims, if it and all that the token is bound to are still there.
fn bearer_of(claims: &Value, now: Timestamp, store: &Store) -> Result<User, String> {
    let (bound, jti) = (&claims["kubernetes.io"], claims["jti"].as_str());
    let namespace = bound["namespace"].as_str().unwrap_or_default();
    let (name, uid) = reference(&bound["serviceaccount"]);
    let account = store
        .get("serviceaccounts", namespace, name)
        .ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
    let there = meta::uid(&account.value);
    if there != uid {
        return Err(format!("service account UID ({there}) does not match claim ({uid})"));
    }
    if long_deleted(&account.value, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let still = |resource: &str, kind: &str, namespace: &str| {
        let Some(claim) = bound.get(kind) else { return Ok(()) };
        let (name, uid) = reference(claim);
        let object = store.get(resource, namespace, name).ok_or(GONE)?;
        let there = meta::uid(&object.value);
        if there != uid {
            return Err(format!(
                "{kind} UID ({there}) does not match service account {kind} ref claim ({uid})"
            ));
        }
        if long_deleted(&object.value, now) { Err(GONE.to_owned()) } else { Ok(()) }
    };
    still("secrets", "secret", namespace)?;
    still("pods", "pod", namespace)?;
    if bound.get("pod").is_none() {
        still("nodes", "node", "")?;
    }

    let mut user = User::service_account(namespace, name);
    user.uid = uid.to_owned();
    if let Some(jti) = jti {
        user.extra.insert(format!("{EXTRA}/credential-id"), vec![format!("JTI={jti}")]);
    }
    for kind in ["pod", "node"] {
        let Some(claim) = bound.get(kind) else { continue };
        let (name, uid) = reference(claim);
        user.extra.insert(format!("{EXTRA}/{kind}-name"), vec![name.to_owned()]);
        if !uid.is_empty() {
            user.extra.insert(format!("{EXTRA}/{kind}-uid"), vec![uid.to_owned()]);
        }
    }
    Ok(user)
}

fn long_deleted(object: &Value, now: Timestamp) -> bool {
    let before = now.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN);
    let deleted = meta::text(object, "deletionTimestamp").parse::<Timestamp>();
    deleted.is_ok_and(|deleted| deleted < before)
}

fn reference(claim: &Value) -> (&str, &str) {
    (claim["name"].as_str().unwrap_or_default(), claim["uid"].as_str().unwrap_or_default())
}

fn intersect(one: &[String], other: &[String]) -> Vec<String> {
    one.iter().filter(|audience| other.contains(audience)).cloned().collect()
}

pub(super) fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn quoted(list: &[String]) -> String {
    let each: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", each.join(" "))
}
