//! How what came out is compared with what was recorded: revisions are opaque, but the same one everywhere.

use std::collections::BTreeMap;

use serde_json::Value;

/// What each token of a case stands for.
#[derive(Default)]
pub struct Tokens {
    bound: BTreeMap<String, String>,
}

impl Tokens {
    /// The recorded text says the same as this one.
    pub fn text(&mut self, recorded: &str, got: &str) -> bool {
        let mut recorded = recorded.to_owned();
        for (token, value) in &self.bound {
            recorded = recorded.replace(token, value);
        }
        let Some(start) = recorded.find("<rev:").or_else(|| recorded.find("<hash:")) else {
            return recorded == got || recorded == "<unstable>";
        };
        let Some(length) = recorded[start..].find('>') else { return false };
        let (token, rest) = recorded[start..].split_at(length + 1);
        let Some(value) =
            got.strip_prefix(&recorded[..start]).and_then(|got| got.strip_suffix(rest))
        else {
            return false;
        };
        let kind = |token: &str| token.rsplit_once(':').map(|(kind, _)| kind.to_owned());
        let mut others = self.bound.iter().filter(|(other, _)| kind(other) == kind(token));
        if value.is_empty() || others.any(|(_, taken)| taken == value) {
            return false;
        }
        self.bound.insert(token.to_owned(), value.to_owned());
        true
    }

    /// The recorded value says the same as this one; what is empty may be missing.
    pub fn value(&mut self, recorded: &Value, got: &Value) -> Result<(), String> {
        match (recorded, got) {
            (Value::String(text), Value::String(other)) if self.text(text, other) => Ok(()),
            (Value::Object(map), Value::Object(other)) => {
                let mut keys: Vec<&String> = map.keys().chain(other.keys()).collect();
                keys.sort();
                keys.dedup();
                for key in keys {
                    let (recorded, got) = (&recorded[key], &got[key]);
                    let optional = matches!(key.as_str(), "resources" | "status");
                    if optional && empty(recorded) && empty(got) {
                        continue;
                    }
                    self.value(recorded, got).map_err(|miss| format!("{key}: {miss}"))?;
                }
                Ok(())
            }
            (Value::Array(list), Value::Array(other)) if list.len() == other.len() => {
                for (at, (recorded, got)) in list.iter().zip(other).enumerate() {
                    self.value(recorded, got).map_err(|miss| format!("{at}: {miss}"))?;
                }
                Ok(())
            }
            _ if recorded == got => Ok(()),
            _ => Err(format!("\n    expected {recorded}\n    got      {got}")),
        }
    }

    /// Both lists hold the same texts, in any order and any number of times.
    pub fn set(&mut self, recorded: &[String], got: &[String]) -> Result<(), String> {
        let missing = recorded.iter().find(|text| !got.iter().any(|got| self.text(text, got)));
        let extra = got.iter().find(|text| !recorded.iter().any(|it| self.text(it, text)));
        match (missing, extra) {
            (None, None) => Ok(()),
            _ => Err(format!("\n    expected {recorded:?}\n    got      {got:?}")),
        }
    }
}

fn empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}
