//! `Impersonate-*` headers: acting as somebody else, if allowed.

use http::{HeaderMap, HeaderValue};
use muster_objects::rbac::Attributes;
use muster_objects::status::Status;

use super::{AUTHENTICATED, Auth, UNAUTHENTICATED, User};
use crate::store::Store;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";

impl Auth {
    /// The user that the headers ask for, or the caller itself.
    pub(super) fn impersonate(
        &self,
        caller: User,
        headers: &HeaderMap,
        store: &Store,
    ) -> Result<User, Status> {
        let name = text(headers.get(USER));
        let uid = text(headers.get(UID));
        let groups: Vec<String> =
            headers.get_all(GROUP).iter().map(|v| text(Some(v)).to_owned()).collect();
        let extras = extras(headers);
        if name.is_empty() {
            if groups.is_empty() && extras.is_empty() && uid.is_empty() {
                return Ok(caller);
            }
            return Err(Status::internal(format!(
                "requested groups {groups:?}, extras {extras:?}, uid {uid:?} without impersonating a user"
            )));
        }
        let may = |group: &str, resource: &str, sub: &str, namespace: &str, name: &str| {
            let attributes = Attributes {
                verb: "impersonate",
                group,
                resource,
                subresource: sub,
                namespace,
                name,
                ..Attributes::default()
            };
            self.authorize(&caller, &attributes, store)
        };

        let mut user = User { impersonated: true, ..User::default() };
        name.clone_into(&mut user.name);
        match split(name) {
            Some((namespace, account)) => {
                may("", "serviceaccounts", "", namespace, account)?;
                if groups.is_empty() {
                    user.groups = vec![
                        "system:serviceaccounts".into(),
                        format!("system:serviceaccounts:{namespace}"),
                    ];
                }
            }
            None => may("", "users", "", "", name)?,
        }
        for group in &groups {
            may("", "groups", "", "", group)?;
        }
        user.groups.extend(groups);
        for (key, value) in extras {
            may("authentication.k8s.io", "userextras", &key, "", &value)?;
            user.extra.entry(key).or_default().push(value);
        }
        if !uid.is_empty() {
            may("authentication.k8s.io", "uids", "", "", uid)?;
            uid.clone_into(&mut user.uid);
        }
        let has = |group: &str| user.groups.iter().any(|g| g == group);
        if name == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                user.groups.push(UNAUTHENTICATED.into());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            user.groups.push(AUTHENTICATED.into());
        }
        Ok(user)
    }
}

/// Namespace and name of a service account's user name.
fn split(name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = !namespace.is_empty() && !account.is_empty() && !account.contains(':');
    valid.then_some((namespace, account))
}

fn extras(headers: &HeaderMap) -> Vec<(String, String)> {
    let named = headers.iter().filter_map(|(name, value)| {
        let key = name.as_str().strip_prefix(EXTRA)?;
        Some((unescape(key), text(Some(value)).to_owned()))
    });
    named.collect()
}

/// Resolves `%2f` and the like; a malformed key stays as it is.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

fn text(value: Option<&HeaderValue>) -> &str {
    value.and_then(|v| v.to_str().ok()).unwrap_or_default()
}
