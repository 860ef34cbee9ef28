//! The environment of a container. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::lifecycle::{list, text};
use super::volumes::{Fact, Fetched, Object, content};

/// The ConfigMaps and Secrets that a container's environment names.
pub fn needs(container: &Value) -> BTreeSet<Object> {
    let env = list(container, "env").iter().filter_map(|e| key_of(e.get("valueFrom")?));
    let mut objects: BTreeSet<Object> = env.map(|(object, ..)| object).collect();
    objects.extend(list(container, "envFrom").iter().filter_map(|from| all_of(from).map(|a| a.0)));
    objects
}

/// The container's environment, or why it cannot be made.
pub fn resolve(
    pod: &Value,
    container: &Value,
    fetched: &Fetched,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = BTreeMap::new();
    let name = text(container, "name");
    let not_found = |object: &Object| {
        let (kind, name) = object.kind_and_name();
        format!("{kind} \"{name}\" not found")
    };
    for from in list(container, "envFrom") {
        let Some((object, optional)) = all_of(from) else { continue };
        match fetched.objects.get(&object) {
            Some(found) => {
                let prefix = text(from, "prefix");
                for (key, value) in content(&object, found) {
                    let value = String::from_utf8_lossy(&value).into_owned();
                    env.insert(format!("{prefix}{key}"), value);
                }
            }
            None if optional => {}
            None => return Err(not_found(&object)),
        }
    }
    for entry in list(container, "env") {
        let key = text(entry, "name").to_owned();
        let Some(from) = entry.get("valueFrom").filter(|f| !f.is_null()) else {
            let value = expand(text(entry, "value"), &env);
            env.insert(key, value);
            continue;
        };
        let Some((object, wanted, optional)) = key_of(from) else {
            env.insert(key, Fact::read(from).of(pod, name));
            continue;
        };
        let found = fetched.objects.get(&object);
        match found.map(|found| content(&object, found)) {
            Some(data) => match data.get(&wanted) {
                Some(value) => {
                    env.insert(key, String::from_utf8_lossy(value).into_owned());
                }
                None if optional => {}
                None => {
                    let (kind, name) = object.kind_and_name();
                    return Err(format!("couldn't find key {wanted} in {kind} {name}"));
                }
            },
            None if optional => {}
            None => return Err(not_found(&object)),
        }
    }
    Ok(env)
}

/// Replaces `$(NAME)` by its value; unknown names stay, `$$` is one `$`.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        done.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(more) = after.strip_prefix('$') {
            done.push('$');
            rest = more;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|name| name.split_once(')'));
        match reference {
            Some((name, more)) => {
                match env.get(name) {
                    Some(value) => done.push_str(value),
                    None => done.push_str(&rest[at..at + name.len() + 3]),
                }
                rest = more;
            }
            None => {
                done.push('$');
                rest = after;
            }
        }
    }
    done.push_str(rest);
    done
}

fn key_of(from: &Value) -> Option<(Object, String, bool)> {
    let (reference, object): (_, fn(String) -> Object) =
        match (from.get("configMapKeyRef"), from.get("secretKeyRef")) {
            (Some(map), _) => (map, Object::ConfigMap),
            (_, Some(secret)) => (secret, Object::Secret),
            _ => return None,
        };
    let optional = reference.get("optional") == Some(&Value::Bool(true));
    let name = text(reference, "name").to_owned();
    Some((object(name), text(reference, "key").to_owned(), optional))
}

fn all_of(from: &Value) -> Option<(Object, bool)> {
    let (reference, object): (_, fn(String) -> Object) =
        match (from.get("configMapRef"), from.get("secretRef")) {
            (Some(map), _) => (map, Object::ConfigMap),
            (_, Some(secret)) => (secret, Object::Secret),
            _ => return None,
        };
    let optional = reference.get("optional") == Some(&Value::Bool(true));
    Some((object(text(reference, "name").to_owned()), optional))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_environment_comes_from_values_facts_and_objects() {
        let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n" } });
        let container = json!({ "name": "c",
            "envFrom": [{ "prefix": "M_", "configMapRef": { "name": "m" } }],
            "env": [
                { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
                { "name": "NO", "valueFrom": { "configMapKeyRef": { "name": "x", "key": "k", "optional": true } } },
                { "name": "ALL", "value": "$(POD)-$(M_a)-$(UNKNOWN)-$$(POD)" }
            ] });
        let mut fetched = Fetched::default();
        fetched.objects.insert(Object::ConfigMap("m".into()), json!({ "data": { "a": "1" } }));
        fetched.objects.insert(Object::Secret("s".into()), json!({ "data": { "k": "eA==" } }));
        let env = resolve(&pod, &container, &fetched).unwrap();
        let expected = [("ALL", "p-1-$(UNKNOWN)-$(POD)"), ("KEY", "x"), ("M_a", "1"), ("POD", "p")];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(env, BTreeMap::from(expected));
        assert_eq!(needs(&container).len(), 3);
        fetched.objects.clear();
        let missing = resolve(&pod, &container, &fetched).unwrap_err();
        assert_eq!(missing, "configmap \"m\" not found");
    }
}
