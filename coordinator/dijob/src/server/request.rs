//! Bodies of requests, read as leniently as the clients expect: keys in any case, others ignored, and whatever comes
//! after the first value.

use std::collections::BTreeSet;

use muster_kube::{Name, Namespace, Quantity};
use serde_json::{Map, Value};

use super::answer::Refusal;
use crate::pod::amount;

/// Names in a report at most.
const MOST_NAMES: usize = 10_000;

/// What POST and DELETE ask for.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// The job's namespace.
    pub namespace: String,
    /// A pod of the job.
    pub coordinator: String,
    /// Collectors.
    pub collectors: Wanted,
    /// Logic learners.
    pub learners: Wanted,
}

/// How many replicas, and what each of them has.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How many more, or fewer.
    pub replicas: i64,
    /// Processors.
    pub cpus: Quantity,
    /// Devices.
    pub gpus: Quantity,
    /// Memory.
    pub memory: Quantity,
}

/// What a report of failed replicas says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// The job's namespace.
    pub namespace: String,
    /// Who reports it; not checked.
    pub coordinator: String,
    /// Names of pods.
    pub collectors: Vec<String>,
    /// Names of pods.
    pub learners: Vec<String>,
}

/// One JSON object, with keys in any case.
struct Object(Map<String, Value>);

// === impl Wanted ===

impl Default for Wanted {
    fn default() -> Self {
        let none = Quantity::ZERO;
        Self { replicas: 0, cpus: none, gpus: none, memory: none }
    }
}

impl Wanted {
    fn read(value: Option<&Value>, key: &str) -> Result<Self, Refusal> {
        let object = match value {
            None => return Ok(Self::default()),
            Some(Value::Object(object)) => Object(object.clone()),
            Some(other) => {
                return Err(undecodable(format!("{key} is {}, not an object", kind(other))));
            }
        };
        let replicas = match object.get("replicas") {
            None => 0,
            Some(value) => value.as_i64().ok_or_else(|| {
                undecodable(format!("{key}.replicas is {}, not a whole number", shown(value)))
            })?,
        };
        let quantity = |name: &str| match object.get(name) {
            None => Ok(Quantity::ZERO),
            Some(value) => amount(value).ok_or_else(|| {
                undecodable(format!("{key}.{name} is {}, not a quantity", shown(value)))
            }),
        };
        let (cpus, gpus) = (quantity("cpus")?, quantity("gpus")?);
        Ok(Self { replicas, cpus, gpus, memory: quantity("memory")? })
    }

    /// How many replicas, if any.
    pub fn count(&self) -> usize {
        usize::try_from(self.replicas.max(0)).unwrap_or(usize::MAX)
    }
}

// === impl Replicas ===

impl Replicas {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let object = Object::read(body)?;
        Ok(Self {
            namespace: namespace(object.text("namespace")?)?,
            coordinator: name(object.text("coordinator")?)?,
            collectors: Wanted::read(object.get("collectors"), "collectors")?,
            learners: Wanted::read(object.get("learners"), "learners")?,
        })
    }
}

// === impl Failed ===

impl Failed {
    /// Reads a body. Each name is there once.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let object = Object::read(body)?;
        let collectors = object.names("collectors")?;
        let mut learners = object.names("learners")?;
        let before: BTreeSet<&String> = collectors.iter().collect();
        learners.retain(|name| !before.contains(name));
        Ok(Self {
            namespace: namespace(object.text("namespace")?)?,
            coordinator: object.text("coordinator")?,
            collectors,
            learners,
        })
    }
}

// === impl Object ===

impl Object {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let first = serde_json::Deserializer::from_slice(body).into_iter::<Value>().next();
        match first {
            None => Err(undecodable("EOF")),
            Some(Err(error)) => Err(undecodable(error.to_string())),
            Some(Ok(Value::Object(object))) => Ok(Self(object)),
            Some(Ok(Value::Null)) => Ok(Self(Map::new())),
            Some(Ok(other)) => Err(undecodable(format!("it is {}, not an object", kind(&other)))),
        }
    }

    /// What is there under a key; `null` is nothing.
    fn get(&self, key: &str) -> Option<&Value> {
        let exact = self.0.get(key);
        let similar = || self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(key));
        exact.or_else(|| similar().map(|(_, value)| value)).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<String, Refusal> {
        match self.get(key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(undecodable(format!("{key} is {}, not text", kind(other)))),
        }
    }

    fn names(&self, key: &str) -> Result<Vec<String>, Refusal> {
        let list = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) if list.len() <= MOST_NAMES => list,
            Some(Value::Array(_)) => {
                return Err(undecodable(format!("{key} has more than {MOST_NAMES} names")));
            }
            Some(other) => {
                return Err(undecodable(format!("{key} is {}, not a list", kind(other))));
            }
        };
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for name in list {
            let name = match name {
                Value::String(name) => name.as_str(),
                Value::Null => "",
                other => {
                    return Err(undecodable(format!("{key} has {} in it, not text", kind(other))));
                }
            };
            if seen.insert(name) {
                names.push(self::name(name.to_owned())?);
            }
        }
        Ok(names)
    }
}

/// Refuses what no namespace is called. An empty one is looked for, and not found.
pub(super) fn namespace(text: String) -> Result<String, Refusal> {
    match Namespace::parse(&text) {
        Err(error) if !text.is_empty() => Err(Refusal::bad(error.to_string())),
        _ => Ok(text),
    }
}

/// Refuses what no pod is called. An empty one is looked for, and not found.
pub(super) fn name(text: String) -> Result<String, Refusal> {
    match Name::parse(&text) {
        Err(error) if !text.is_empty() => Err(Refusal::bad(error.to_string())),
        _ => Ok(text),
    }
}

fn undecodable(why: impl AsRef<str>) -> Refusal {
    Refusal::bad(format!("failed to decode request body: {}", why.as_ref()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
