//! Which roles a thing was made from, in a few letters that fit a label.
//!
//! What makes other pods counts: names, templates, workers, the order of roles. How many instances there are, and how
//! they are replaced, does not. The letters are those that Kthena uses; what is hashed is the roles with sorted keys,
//! not a dump of a Go program, so a revision is to be compared, never to be computed elsewhere.

use serde_json::{Map, Value};

use crate::api::{PodTemplate, Role};

/// The revision of all roles.
pub fn roles(roles: &[Role]) -> String {
    let mut hash = Fnv::default();
    hash.text("[");
    for role in roles {
        hash.role(role);
        hash.text(",");
    }
    hash.text("]");
    hash.finish()
}

/// The hash of one role.
pub fn role(role: &Role) -> String {
    let mut hash = Fnv::default();
    hash.role(role);
    hash.finish()
}

/// FNV-1 of 32 bits.
pub fn fnv32(bytes: &[u8]) -> u32 {
    let mut hash = Fnv::default();
    hash.bytes(bytes);
    hash.0
}

/// Letters and digits that make no words.
pub fn safe_encode(text: &str) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    text.bytes().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).collect()
}

struct Fnv(u32);

// === impl Fnv ===

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0x811c_9dc5)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn finish(self) -> String {
        safe_encode(&self.0.to_string())
    }

    fn role(&mut self, role: &Role) {
        self.text("{\"entryTemplate\":");
        self.template(&role.entry_template);
        self.text(",\"name\":");
        self.string(&role.name);
        self.text(",\"workerReplicas\":");
        self.text(&role.worker_replicas.to_string());
        if let Some(template) = &role.worker_template {
            self.text(",\"workerTemplate\":");
            self.template(template);
        }
        self.text("}");
    }

    fn template(&mut self, template: &PodTemplate) {
        self.text("{");
        if let Some(metadata) = &template.metadata {
            self.text("\"metadata\":{");
            for (key, map) in [("a", &metadata.annotations), ("l", &metadata.labels)] {
                for (name, value) in map.iter().flatten() {
                    self.text(key);
                    self.string(name);
                    self.text(":");
                    self.string(value);
                    self.text(",");
                }
            }
            self.text("},");
        }
        self.text("\"spec\":");
        self.object(&template.spec);
        self.text("}");
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(map) => self.object(map),
            Value::Array(list) => {
                self.text("[");
                for item in list {
                    self.value(item);
                    self.text(",");
                }
                self.text("]");
            }
            Value::String(text) => self.string(text),
            Value::Number(number) => self.text(&number.to_string()),
            Value::Bool(true) => self.text("true"),
            Value::Bool(false) => self.text("false"),
            Value::Null => self.text("null"),
        }
    }

    /// A key without a value is no key.
    fn object(&mut self, map: &Map<String, Value>) {
        self.text("{");
        for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            self.string(key);
            self.text(":");
            self.value(value);
            self.text(",");
        }
        self.text("}");
    }

    /// The length says where it ends.
    fn string(&mut self, text: &str) {
        self.text(&text.len().to_string());
        self.text("\"");
        self.text(text);
        self.text("\"");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(role: Value) -> Role {
        serde_json::from_value(role).unwrap()
    }

    fn server() -> Value {
        json!({"name": "server", "replicas": 1, "workerReplicas": 1, "maxUnavailable": 1,
            "entryTemplate": {"spec": {"containers": [{"name": "engine", "image": "engine:v1"}]}}})
    }

    #[test]
    fn what_makes_the_same_pods_has_the_same_hash() {
        let mut other = server();
        other["replicas"] = json!(9);
        other["maxUnavailable"] = json!("20%");
        other["partition"] = json!(2);
        assert_eq!(role(&read(server())), role(&read(other)));
    }

    #[test]
    fn what_makes_other_pods_has_another() {
        let changed = [
            ("/workerReplicas", json!(2)),
            ("/name", json!("decode")),
            ("/entryTemplate/spec/containers/0/image", json!("engine:v2")),
            ("/entryTemplate/spec/containers/0", json!({"name": "e", "image": "i", "env": []})),
            ("/entryTemplate", json!({"metadata": {"labels": {"a": "b"}}})),
            ("/entryTemplate", json!({"metadata": {"annotations": {"a": "b"}}})),
        ];
        let mut hashes = vec![role(&read(server()))];
        for (at, value) in changed {
            let mut other = server();
            *other.pointer_mut(at).unwrap() = value;
            hashes.push(role(&read(other)));
        }
        let count = hashes.len();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn the_order_of_roles_counts() {
        let [one, two] = [read(server()), read(json!({"name": "b"}))];
        assert_ne!(roles(&[one.clone(), two.clone()]), roles(&[two, one]));
    }

    #[test]
    fn a_hash_is_what_it_was_yesterday() {
        assert_eq!(role(&read(server())), role(&read(server())));
        assert_eq!(fnv32(b"foobar"), 837_857_890);
        assert_eq!(safe_encode("4294967295"), "86f8fbc6f9");
    }
}
