//! Reading a built-in kind: unknown fields go, wrong types are refused, empty fields are left out or
//! printed as Kubernetes does, quantities and times take their canonical form.

use base64::Engine as _;
use muster_kube::quantity::Quantity;
use muster_objects::status::Status;
use serde_json::{Map, Value};

use super::instant;
use super::types::{Field, Omit, Struct, TABLE, Type};

/// Why a value does not fit its type. The path is collected on the way out, innermost first.
struct Misfit {
    path: Vec<&'static str>,
    holder: Option<&'static str>,
    text: Complaint,
}

enum Complaint {
    /// JSON of the wrong type.
    Type { found: String, wanted: String },
    /// A type with a form of its own says it in its own words.
    Own(String),
}

/// See [`super::decode`].
pub(super) fn decode(
    group: &str,
    kind: &str,
    value: Value,
) -> Result<(Value, Vec<String>), Status> {
    match TABLE.sent(group, kind) {
        Some(shape) => decode_as(shape, group, kind, value),
        None => Ok((value, Vec::new())),
    }
}

/// The same for an object of which the struct is known.
pub(super) fn decode_as(
    shape: &'static Struct,
    group: &str,
    kind: &str,
    mut value: Value,
) -> Result<(Value, Vec<String>), Status> {
    let mut unknown = Vec::new();
    let found = kind_of(&value);
    let result = match &mut value {
        Value::Object(map) => fit_struct(map, shape, &mut unknown),
        _ => Err(misfit(found, &shape.go)),
    };
    match result {
        Ok(()) => {
            let unknown = unknown.into_iter().map(|path| format!("unknown field \"{path}\""));
            Ok((value, unknown.collect()))
        }
        Err(misfit) => Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {kind}: {misfit}",
            if group == "autoscaling" { "v2" } else { "v1" },
        ))),
    }
}

fn fit_struct(
    map: &mut Map<String, Value>,
    shape: &'static Struct,
    unknown: &mut Vec<String>,
) -> Result<(), Misfit> {
    let mut drop: Vec<String> = Vec::new();
    for (name, value) in map.iter_mut() {
        let Some(field) = shape.field(name) else {
            unknown.push(name.clone());
            drop.push(name.clone());
            continue;
        };
        let before = unknown.len();
        fit(value, &field.ty, unknown).map_err(|error| error.inside(shape, field))?;
        for path in &mut unknown[before..] {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{name}{dot}{path}");
        }
        let left_out = match field.omit {
            Omit::Never => false,
            Omit::Empty => is_empty(value, &field.ty),
            Omit::Zero => value.is_null() || is_empty(value, &field.ty),
        };
        if left_out {
            drop.push(name.clone());
        }
    }
    for name in drop {
        map.remove(&name);
    }
    for (name, zero) in &shape.zeros {
        if !map.contains_key(*name) {
            map.insert((*name).to_owned(), zero.clone());
        }
    }
    Ok(())
}

fn fit(value: &mut Value, ty: &'static Type, unknown: &mut Vec<String>) -> Result<(), Misfit> {
    if value.is_null() {
        *value = TABLE.zero(ty);
        return Ok(());
    }
    match ty {
        Type::Pointer(inner) => fit(value, inner, unknown),
        Type::Struct(at) => {
            let shape = TABLE.at(*at);
            let found = kind_of(value);
            match value {
                Value::Object(map) => fit_struct(map, shape, unknown),
                _ => Err(misfit(found, &shape.go)),
            }
        }
        Type::List(name, item) => {
            let found = kind_of(value);
            let Value::Array(items) = value else { return Err(misfit(found, name)) };
            for (at, value) in items.iter_mut().enumerate() {
                let before = unknown.len();
                fit(value, item, unknown)?;
                for path in &mut unknown[before..] {
                    let dot = if path.starts_with('[') { "" } else { "." };
                    *path = format!("[{at}]{dot}{path}");
                }
            }
            if items.is_empty() {
                *value = Value::Null;
            }
            Ok(())
        }
        Type::Map(name, item) => {
            let found = kind_of(value);
            let Value::Object(entries) = value else { return Err(misfit(found, name)) };
            for (key, value) in entries.iter_mut() {
                let before = unknown.len();
                fit(value, item, unknown)?;
                for path in &mut unknown[before..] {
                    *path = format!("{key}.{path}");
                }
            }
            if entries.is_empty() {
                *value = Value::Null;
            }
            Ok(())
        }
        Type::Schema(_, at) => match value {
            Value::Object(map) => fit_struct(map, TABLE.at(*at), unknown),
            Value::Array(items) => {
                let schemas = items.iter_mut().filter_map(Value::as_object_mut);
                schemas.into_iter().try_for_each(|map| fit_struct(map, TABLE.at(*at), unknown))
            }
            _ => Ok(()),
        },
        _ => fit_scalar(value, ty),
    }
}

fn fit_scalar(value: &mut Value, ty: &Type) -> Result<(), Misfit> {
    let found = kind_of(value);
    match (ty, &*value) {
        (Type::Bool(_), Value::Bool(_)) | (Type::Text(_), Value::String(_)) | (Type::Raw, _) => {
            Ok(())
        }
        (Type::Bool(name) | Type::Text(name), _) => Err(misfit(found, name)),
        (Type::Int32(name), Value::Number(number)) => {
            match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(_) => Ok(()),
                None => Err(misfit(&format!("number {number}"), name)),
            }
        }
        (Type::Int64(name), Value::Number(number)) => match number.as_i64() {
            Some(_) => Ok(()),
            None => Err(misfit(&format!("number {number}"), name)),
        },
        (Type::Int32(name) | Type::Int64(name), _) => Err(misfit(found, name)),
        (Type::Bytes, Value::String(text)) => {
            if text.is_empty() {
                return Ok(());
            }
            let kept: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            match base64::engine::general_purpose::STANDARD.decode(&kept) {
                Ok(_) => {
                    *value = Value::String(kept);
                    Ok(())
                }
                Err(_) => {
                    Err(own(format!("illegal base64 data at input byte {}", first_illegal(text))))
                }
            }
        }
        (Type::Bytes, _) => Err(misfit(found, "[]uint8")),
        (Type::Quantity, other) => {
            let parsed = match other {
                Value::String(text) => text.parse::<Quantity>(),
                other => other.to_string().parse::<Quantity>(),
            };
            *value = Value::String(parsed.map_err(|error| own(error.to_string()))?.to_string());
            Ok(())
        }
        (Type::IntOrString, Value::String(_)) => Ok(()),
        (Type::IntOrString, Value::Number(number)) => {
            match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(_) => Ok(()),
                None => Err(misfit(&format!("number {number}"), "int32")),
            }
        }
        (Type::IntOrString, _) => Err(misfit(found, "int32")),
        (Type::Time | Type::MicroTime, Value::String(text)) => {
            let micros = matches!(ty, Type::MicroTime);
            *value = Value::String(instant::canonical(text, micros).map_err(own)?);
            Ok(())
        }
        (Type::Time | Type::MicroTime, _) => Err(misfit(found, "string")),
        _ => Ok(()),
    }
}

/// What an error message calls the JSON type that was found.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_empty(value: &Value, ty: &Type) -> bool {
    match (ty, value) {
        (Type::Pointer(_), value) => value.is_null(),
        (ty, _) if ty.is_struct() => false,
        (_, Value::Null) => true,
        (_, Value::Bool(on)) => !on,
        (_, Value::Number(number)) => number.as_i64() == Some(0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(fields)) => fields.is_empty(),
    }
}

fn first_illegal(text: &str) -> usize {
    let legal =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\r' | b'\n');
    text.bytes().position(|b| !legal(b)).unwrap_or(text.len() / 4 * 4)
}

fn misfit(found: &str, wanted: &str) -> Misfit {
    Misfit {
        path: Vec::new(),
        holder: None,
        text: Complaint::Type { found: found.to_owned(), wanted: wanted.to_owned() },
    }
}

fn own(text: String) -> Misfit {
    Misfit { path: Vec::new(), holder: None, text: Complaint::Own(text) }
}

// === impl Misfit ===

impl Misfit {
    fn inside(mut self, shape: &'static Struct, field: &'static Field) -> Self {
        self.holder.get_or_insert(shape.name);
        self.path.push(field.name);
        self
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.text {
            Complaint::Own(text) => f.write_str(text),
            Complaint::Type { found, wanted } => match self.holder {
                None => write!(f, "json: cannot unmarshal {found} into Go value of type {wanted}"),
                Some(holder) => {
                    let path: Vec<&str> = self.path.iter().rev().copied().collect();
                    let path = path.join(".");
                    write!(
                        f,
                        "json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}"
                    )
                }
            },
        }
    }
}
