//! The shape of the built-in kinds: which fields a struct has, of which type, and which of them are
//! printed when empty. Read once from `types.txt`, which `tests/sandbox/typetable` makes from the
//! Kubernetes API's own types.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::numbers::Numbers;

/// The whole table.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("types.txt")));

/// All structs, and which of them each kind is.
#[derive(Debug, Default)]
pub(super) struct Table {
    structs: Vec<Struct>,
    kinds: HashMap<&'static str, HashMap<&'static str, usize>>,
    messages: HashMap<&'static str, HashMap<&'static str, usize>>,
    encoded: HashMap<&'static str, HashMap<&'static str, usize>>,
}

/// One struct of the API.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// Bare name, e.g. `PodSpec`.
    pub name: &'static str,
    /// Name with its version, e.g. `v1.PodSpec`.
    pub go: String,
    /// Sorted by name.
    pub fields: Vec<Field>,
    /// What is printed where nothing was said.
    pub zeros: Vec<(&'static str, Value)>,
    /// Which field a protobuf number means.
    pub numbers: Numbers,
}

/// One field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    /// The field's name in JSON.
    pub name: &'static str,
    /// When it is left out.
    pub omit: Omit,
    /// Wire kind and number in protobuf, as the table writes them.
    pub wire: &'static str,
    /// What it holds.
    pub ty: Type,
}

/// When a field is left out of the printed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Omit {
    /// Never: its zero is printed.
    Never,
    /// When it is an empty list, map or string, false, 0 or a null pointer.
    Empty,
    /// When it is zero in every part.
    Zero,
}

/// What a field holds. Names are those that an error message shows.
#[derive(Debug)]
pub(super) enum Type {
    Bool(String),
    Int32(String),
    Int64(String),
    Text(String),
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Raw,
    Float,
    /// A schema, or what else may stand in its place.
    Schema(Else, usize),
    Pointer(Box<Type>),
    List(String, Box<Type>),
    Map(String, Box<Type>),
    Struct(usize),
}

/// What may stand where a schema is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Else {
    /// Whether anything or nothing goes.
    Bool,
    /// One schema per item.
    Schemas,
    /// Names of fields.
    Names,
}

// === impl Table ===

impl Table {
    /// The struct of a kind, where the kind is built in.
    pub fn kind(&self, group: &str, kind: &str) -> Option<&Struct> {
        self.kinds.get(group)?.get(kind).map(|&index| &self.structs[index])
    }

    /// The struct of a kind that is built in, be it stored or only sent.
    pub fn sent(&self, group: &str, kind: &str) -> Option<&Struct> {
        let message = || self.messages.get(group)?.get(kind).map(|&index| &self.structs[index]);
        self.kind(group, kind).or_else(message)
    }

    /// The struct of a kind that is read from protobuf, also where its JSON is read without this table.
    pub fn encoded(&self, group: &str, kind: &str) -> Option<&Struct> {
        let encoded = || self.encoded.get(group)?.get(kind).map(|&index| &self.structs[index]);
        self.sent(group, kind).or_else(encoded)
    }

    /// A struct by its place in the table.
    pub fn at(&self, index: usize) -> &Struct {
        &self.structs[index]
    }

    fn read(text: &'static str) -> Self {
        let mut index: HashMap<&str, usize> = HashMap::new();
        let mut table = Self::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('#') {
                index.insert(name, table.structs.len());
                table.structs.push(Struct {
                    name: name.rsplit('.').next().unwrap_or(name),
                    go: name.rsplit('/').next().unwrap_or(name).to_owned(),
                    ..Struct::default()
                });
            }
        }
        let mut current = 0;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('#') {
                current = index.get(name).copied().unwrap_or_default();
            } else if let Some(kind) = line.strip_prefix(['@', '!', '~']) {
                let (name, target) = kind.split_once(" #").unwrap_or((kind, ""));
                let (group, kind) = name.rsplit_once('/').unwrap_or(("", name));
                let kinds = match line.as_bytes() {
                    [b'@', ..] => &mut table.kinds,
                    [b'!', ..] => &mut table.messages,
                    _ => &mut table.encoded,
                };
                if let Some(&at) = index.get(target) {
                    kinds.entry(group).or_default().insert(kind, at);
                }
            } else if !line.starts_with("//") {
                let mut parts = line.splitn(4, ' ');
                if let (Some(name), Some(flag), Some(wire), Some(ty)) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                {
                    let omit = match flag {
                        "o" => Omit::Empty,
                        "z" => Omit::Zero,
                        _ => Omit::Never,
                    };
                    let ty = Type::read(ty, &index);
                    table.structs[current].fields.push(Field { name, omit, wire, ty });
                }
            }
        }
        for at in 0..table.structs.len() {
            let shape = &mut table.structs[at];
            shape.fields.sort_by_key(|field| field.name);
            shape.numbers = Numbers::read(shape.fields.iter().map(|field| field.wire));
        }
        let zeros: Vec<_> = (0..table.structs.len()).map(|at| table.zeros(at)).collect();
        for (at, zeros) in zeros.into_iter().enumerate() {
            table.structs[at].zeros = zeros;
        }
        table
    }

    fn zeros(&self, at: usize) -> Vec<(&'static str, Value)> {
        let printed = |field: &&Field| match field.omit {
            Omit::Never => true,
            Omit::Empty => field.ty.is_struct(),
            Omit::Zero => false,
        };
        let zero = |field: &Field| (field.name, self.computed_zero(&field.ty));
        self.structs[at].fields.iter().filter(printed).map(zero).collect()
    }

    fn computed_zero(&self, ty: &Type) -> Value {
        match ty {
            Type::Struct(at) => {
                let fields = self.zeros(*at).into_iter();
                Value::Object(fields.map(|(name, zero)| (name.to_owned(), zero)).collect())
            }
            other => other.plain_zero(),
        }
    }

    /// What is printed for a value of this type that was never set.
    pub fn zero(&self, ty: &Type) -> Value {
        match ty {
            Type::Struct(at) => Value::Object(self.at(*at).zero()),
            other => other.plain_zero(),
        }
    }
}

// === impl Struct ===

impl Struct {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let found = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(found)
    }

    /// The struct with nothing set.
    pub fn zero(&self) -> Map<String, Value> {
        self.zeros.iter().map(|(name, zero)| ((*name).to_owned(), zero.clone())).collect()
    }
}

// === impl Type ===

impl Type {
    fn read(text: &str, index: &HashMap<&str, usize>) -> Self {
        // A name further in belongs to an item.
        let (named, text) = match text.split_once('=') {
            Some((name, rest)) if !name.starts_with(['*', '[', '{']) => {
                (Some(name.to_owned()), rest)
            }
            _ => (None, text),
        };
        if let Some(rest) = text.strip_prefix('*') {
            return Self::Pointer(Box::new(Self::read(rest, index)));
        }
        if let Some(rest) = text.strip_prefix("[]") {
            let item = Self::read(rest, index);
            let name = named.unwrap_or_else(|| format!("[]{}", type_name(rest)));
            return Self::List(name, Box::new(item));
        }
        if let Some((key, rest)) = text.strip_prefix('{').and_then(|t| t.split_once('}')) {
            let item = Self::read(rest, index);
            let key = if key.is_empty() { "string" } else { key };
            let name = named.unwrap_or_else(|| format!("map[{key}]{}", type_name(rest)));
            return Self::Map(name, Box::new(item));
        }
        if let Some(name) = text.strip_prefix('#') {
            return index.get(name).map_or(Self::Raw, |&at| Self::Struct(at));
        }
        if let Some((instead, name)) = text.strip_prefix('?').and_then(|t| t.split_once('#')) {
            let instead = match instead {
                "bool" => Else::Bool,
                "schemas" => Else::Schemas,
                _ => Else::Names,
            };
            return index.get(name).map_or(Self::Raw, |&at| Self::Schema(instead, at));
        }
        let (base, name) = text.split_once(':').unwrap_or((text, text));
        match base {
            "bool" => Self::Bool(name.to_owned()),
            "int32" => Self::Int32(name.to_owned()),
            "int64" => Self::Int64(name.to_owned()),
            "string" => Self::Text(name.to_owned()),
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "intorstring" => Self::IntOrString,
            "float64" => Self::Float,
            _ => Self::Raw,
        }
    }

    fn plain_zero(&self) -> Value {
        match self {
            Self::Bool(_) => Value::Bool(false),
            Self::Int32(_) | Self::Int64(_) | Self::IntOrString | Self::Float => Value::from(0),
            Self::Text(_) => Value::from(""),
            Self::Quantity => Value::from("0"),
            _ => Value::Null,
        }
    }

    /// Structs are never empty, so that they are printed even where empty fields are left out.
    pub fn is_struct(&self) -> bool {
        matches!(
            self,
            Self::Struct(_)
                | Self::Time
                | Self::MicroTime
                | Self::Quantity
                | Self::IntOrString
                | Self::Raw
                | Self::Schema(..)
        )
    }
}

/// How an error message writes the type that the table writes as `text`.
fn type_name(text: &str) -> String {
    if let Some(rest) = text.strip_prefix('*') {
        return format!("*{}", type_name(rest));
    }
    if let Some((name, _)) = text.split_once('=') {
        return name.to_owned();
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return format!("[]{}", type_name(rest));
    }
    if let Some(name) = text.strip_prefix('#') {
        return name.rsplit('/').next().unwrap_or(name).to_owned();
    }
    match text.rsplit(':').next().unwrap_or(text) {
        "bytes" => "[]uint8".to_owned(),
        "time" => "v1.Time".to_owned(),
        "quantity" => "resource.Quantity".to_owned(),
        name => name.to_owned(),
    }
}
