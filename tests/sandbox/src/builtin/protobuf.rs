//! Reading protobuf: kubectl's typed commands send it, whatever the server answers in.
//!
//! ```text
//!   k8s\0 ─▶ Unknown { 1: { 1: apiVersion, 2: kind }, 2: object } ─▶ object, by the table ─▶ JSON
//! ```
//!
//! The JSON is the one that the same client would have sent instead. Memory grows with the body. Of the
//! types in the table only schemas hold themselves; they nest as deep as [`DEEPEST`] says.

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use muster_objects::status::Status;
use serde_json::{Map, Value};

use super::decode;
use super::field;
use super::numbers::{NumberPart, Numbers};
use super::types::{Else, Struct, TABLE, Type};

mod wire;

#[cfg(test)]
mod tests;

use wire::{Malformed, Message, Wire};

/// What each body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// How many messages may be around one. What is deeper is too deep for readers of JSON as well.
const DEEPEST: usize = 64;

/// What is around each object.
#[derive(Debug, Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    object: &'a [u8],
}

/// Reads an object of a built-in kind, or one that clients only send (a review, delete options), from
/// `application/vnd.kubernetes.protobuf` into JSON with its `apiVersion` and `kind`.
pub fn from_protobuf(body: &[u8]) -> Result<Value, Status> {
    let Some(body) = body.strip_prefix(MAGIC) else {
        return Err(Status::bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    let envelope = Envelope::read(body)
        .map_err(|error| Status::bad_request(format!("illegal protobuf envelope: {error}")))?;
    let Envelope { api_version, kind, object } = envelope;
    let Some((group, version, shape)) = envelope.shape() else {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )));
    };
    let mut fields = Map::new();
    read_struct(object, shape, &shape.numbers, &mut fields, 0).map_err(|error| {
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
        ))
    })?;
    fields.insert("apiVersion".to_owned(), api_version.into());
    fields.insert("kind".to_owned(), kind.into());
    // Go sends its zero values; JSON leaves them out where the table says so.
    decode::decode_as(shape, group, kind, Value::Object(fields)).map(|(value, _)| value)
}

// === impl Envelope ===

impl<'a> Envelope<'a> {
    fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut envelope = Self::default();
        let mut message = Message::new(body);
        while let Some((number, wire)) = message.next_value()? {
            match number {
                1 => {
                    let mut meta = Message::new(wire.bytes()?);
                    while let Some((number, wire)) = meta.next_value()? {
                        match number {
                            1 => envelope.api_version = wire.text()?,
                            2 => envelope.kind = wire.text()?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.object = wire.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// The group, the version and the struct that the table has for this kind.
    fn shape(&self) -> Option<(&'a str, &'a str, &'static Struct)> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        // Every group has the delete options.
        let group = if self.kind == "DeleteOptions" { "meta.k8s.io" } else { group };
        let shape = TABLE.encoded(group, self.kind)?;
        let known = shape.go.split('.').next() == Some(version) || group == "meta.k8s.io";
        known.then_some((group, version, shape))
    }
}

/// Adds the fields of a message to those of a struct.
fn read_struct(
    bytes: &[u8],
    shape: &'static Struct,
    numbers: &'static Numbers,
    fields: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Malformed> {
    if depth > DEEPEST {
        return Err(Malformed::new(format!("more than {DEEPEST} messages in one another")));
    }
    let mut message = Message::new(bytes);
    while let Some((number, wire)) = message.next_value()? {
        match numbers.part(number) {
            Some(NumberPart::Field { at, varint }) => {
                let Some(field) = shape.fields.get(*at) else { continue };
                let slot = fields.entry(field.name).or_insert(Value::Null);
                read_field(wire, &field.ty, *varint, slot, depth)
                    .map_err(|error| error.inside(&shape.go, field.name))?;
            }
            Some(NumberPart::Inline(inner)) => {
                read_struct(wire.bytes()?, shape, inner, fields, depth)?
            }
            None => {}
        }
    }
    Ok(())
}

/// Puts one value into a field. Lists and maps come value by value, and so may structs.
fn read_field(
    wire: Wire<'_>,
    ty: &'static Type,
    varint: bool,
    slot: &mut Value,
    depth: usize,
) -> Result<(), Malformed> {
    match ty {
        Type::Pointer(inner) => read_field(wire, inner, varint, slot, depth),
        Type::List(_, item) => {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(items) = slot else { return Ok(()) };
            match wire {
                Wire::Bytes(packed) if varint => {
                    let mut message = Message::new(packed);
                    while let Some(number) = message.next_number()? {
                        items.push(read_value(Wire::Varint(number), item, depth)?);
                    }
                }
                wire => items.push(read_value(wire, item, depth)?),
            }
            Ok(())
        }
        Type::Map(_, item) => {
            let mut key = "";
            let mut value = None;
            let mut entry = Message::new(wire.bytes()?);
            while let Some((number, wire)) = entry.next_value()? {
                match number {
                    1 => key = wire.text()?,
                    2 => value = Some(read_value(wire, item, depth)?),
                    _ => {}
                }
            }
            let value = match (value, &**item) {
                (Some(value), _) => value,
                (None, Type::Bytes) => Value::from(""),
                (None, item) => TABLE.zero(item),
            };
            field::fields(slot).insert(key.to_owned(), value);
            Ok(())
        }
        Type::Struct(at) => {
            let shape = TABLE.at(*at);
            read_struct(wire.bytes()?, shape, &shape.numbers, field::fields(slot), depth + 1)
        }
        _ => {
            *slot = read_value(wire, ty, depth)?;
            Ok(())
        }
    }
}

/// Reads a value that stands alone: a scalar, an item of a list, or what a map holds.
fn read_value(wire: Wire<'_>, ty: &'static Type, depth: usize) -> Result<Value, Malformed> {
    Ok(match ty {
        Type::Bool(_) => Value::Bool(wire.varint()? != 0),
        // Two's complement, cut off as Go does.
        Type::Int32(_) => Value::from(wire.varint()? as i32),
        Type::Int64(_) => Value::from(wire.varint()? as i64),
        Type::Text(_) => Value::from(wire.text()?),
        Type::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes()?).into(),
        Type::Time => read_time(wire.bytes()?, false)?,
        Type::MicroTime => read_time(wire.bytes()?, true)?,
        Type::Quantity => last(wire.bytes()?, 1)?.map_or(Ok("0"), Wire::text)?.into(),
        Type::IntOrString => {
            let bytes = wire.bytes()?;
            match last(bytes, 1)?.map_or(Ok(0), Wire::varint)? {
                0 => Value::from(last(bytes, 2)?.map_or(Ok(0), Wire::varint)? as i32),
                1 => last(bytes, 3)?.map_or(Ok(""), Wire::text)?.into(),
                other => return Err(Malformed::new(format!("impossible type {other}"))),
            }
        }
        Type::Float => read_float(wire.float()?),
        Type::Schema(instead, at) => read_schema(wire.bytes()?, *instead, *at, depth)?,
        Type::Raw => match last(wire.bytes()?, 1)?.map_or(Ok(&[][..]), Wire::bytes)? {
            [] => Value::Null,
            json => serde_json::from_slice(json)
                .map_err(|error| Malformed::new(format!("not JSON: {error}")))?,
        },
        // Protobuf has no lists of lists: a list where one value is expected is a message with items.
        Type::List(_, item) => {
            let mut items = Vec::new();
            let mut message = Message::new(wire.bytes()?);
            while let Some((number, wire)) = message.next_value()? {
                if number == 1 {
                    items.push(read_value(wire, item, depth)?);
                }
            }
            Value::Array(items)
        }
        Type::Pointer(inner) => read_value(wire, inner, depth)?,
        Type::Struct(_) | Type::Map(..) => {
            let mut value = Value::Object(Map::new());
            read_field(wire, ty, false, &mut value, depth)?;
            value
        }
    })
}

/// A number as Go writes it: without a fraction where it has none.
fn read_float(number: f64) -> Value {
    const WHOLE: f64 = 1e15;
    match number.fract() == 0.0 && number.abs() < WHOLE {
        true => Value::from(number as i64),
        false => Value::from(number),
    }
}

/// A schema or what stands in its place: a message that has both, of which one counts.
fn read_schema(bytes: &[u8], instead: Else, at: usize, depth: usize) -> Result<Value, Malformed> {
    let shape = TABLE.at(at);
    let schema = |wire: Wire<'_>| {
        let mut fields = Map::new();
        read_struct(wire.bytes()?, shape, &shape.numbers, &mut fields, depth + 1)?;
        Ok(Value::Object(fields))
    };
    let mut found = None;
    let mut allowed = false;
    let mut items = Vec::new();
    let mut message = Message::new(bytes);
    while let Some((number, wire)) = message.next_value()? {
        match (instead, number) {
            (Else::Bool, 1) => allowed = wire.varint()? != 0,
            (Else::Bool, 2) | (Else::Schemas | Else::Names, 1) => found = Some(schema(wire)?),
            (Else::Schemas, 2) => items.push(schema(wire)?),
            (Else::Names, 2) => items.push(wire.text()?.into()),
            _ => {}
        }
    }
    Ok(match instead {
        Else::Bool => found.unwrap_or(Value::Bool(allowed)),
        Else::Schemas | Else::Names if !items.is_empty() => Value::Array(items),
        Else::Schemas | Else::Names => found.unwrap_or(Value::Null),
    })
}

/// A time in seconds and nanoseconds; an empty message is no time at all.
fn read_time(bytes: &[u8], micros: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = last(bytes, 1)?.map_or(Ok(0), Wire::varint)? as i64;
    let nanos = last(bytes, 2)?.map_or(Ok(0), Wire::varint)? as i32;
    let fraction = SignedDuration::from_micros(if micros { i64::from(nanos / 1000) } else { 0 });
    let time = Timestamp::from_second(seconds)
        .and_then(|time| time.checked_add(fraction))
        .map_err(|_| Malformed::new(format!("{seconds} seconds is out of range")))?;
    let form = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(form).to_string().into())
}

/// The value of this number in a message: the last one, where there are several.
fn last(bytes: &[u8], wanted: u32) -> Result<Option<Wire<'_>>, Malformed> {
    let mut found = None;
    let mut message = Message::new(bytes);
    while let Some((number, wire)) = message.next_value()? {
        if number == wanted {
            found = Some(wire);
        }
    }
    Ok(found)
}
