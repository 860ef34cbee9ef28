//! How typed data shows itself to a template.
//!
//! ```
//! use gotemplate::{Functions, Template, structure};
//!
//! struct Server { server_id: String, ports: Vec<i64> }
//! structure!(Server as "main.Server" { ServerId: server_id, Ports: ports });
//!
//! let template = Template::parse("ports", "{{.ServerId}}:{{range .Ports}} {{.}}{{end}}", &Functions::standard())?;
//! let server = Server { server_id: "s1".into(), ports: vec![80, 443] };
//! assert_eq!(template.render(&server)?, "s1: 80 443");
//! # Ok::<(), gotemplate::Error>(())
//! ```

use std::collections::BTreeMap;

use super::{ANY, List, Map, Text, Value};

/// Something that can be seen as a value.
pub trait Data {
    /// The view. It must be cheap: lists and maps are views themselves.
    fn value(&self) -> Value<'_>;

    /// The name of a slice of this type, as Go prints it.
    fn slice_name() -> &'static str
    where
        Self: Sized,
    {
        "[]interface {}"
    }

    /// The name of a map to this type, as Go prints it.
    fn map_name() -> &'static str
    where
        Self: Sized,
    {
        "map[string]interface {}"
    }
}

/// A list that a template can walk.
pub trait Sequence {
    /// How many elements there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at the index, which is below `len`.
    fn get(&self, index: usize) -> Option<Value<'_>>;

    /// The name of the type, as Go prints it.
    fn type_name(&self) -> &str;
}

/// A map that a template can look into.
pub trait Mapping {
    /// How many entries there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    fn get(&self, key: &str) -> Option<Value<'_>>;

    /// All entries, ordered by the bytes of their keys.
    fn entries(&self) -> Vec<(&str, Value<'_>)>;

    /// The name of the type, as Go prints it.
    fn type_name(&self) -> &str;
}

/// A struct: its fields are fixed and another name is an error.
pub trait Struct {
    /// The name of the type, as Go prints it, such as `main.Server`.
    fn type_name(&self) -> &'static str;

    /// The names of the fields in the order of their declaration.
    fn fields(&self) -> &'static [&'static str];

    /// The field at the index, which is below the number of fields.
    fn field(&self, index: usize) -> Value<'_>;
}

/// Makes a Rust struct a [`Struct`] and [`Data`]: template names on the left, Rust fields on the right.
#[macro_export]
macro_rules! structure {
    ($type:ty as $name:literal { $($field:ident: $member:ident),* $(,)? }) => {
        impl $crate::Struct for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn fields(&self) -> &'static [&'static str] {
                &[$(stringify!($field)),*]
            }

            #[inline]
            fn field(&self, index: usize) -> $crate::Value<'_> {
                // The optimiser makes a jump of this row of comparisons.
                let mut next = 0;
                $(
                    if index == next {
                        return $crate::Data::value(&self.$member);
                    }
                    next += 1;
                )*
                let _ = next;
                $crate::Value::Missing
            }
        }

        impl $crate::Data for $type {
            fn value(&self) -> $crate::Value<'_> {
                $crate::Value::Struct(self)
            }

            fn slice_name() -> &'static str {
                concat!("[]", $name)
            }

            fn map_name() -> &'static str {
                concat!("map[string]", $name)
            }
        }
    };
}

// === impl Data ===

macro_rules! data {
    ($type:ty, $go:literal, $self:ident => $value:expr) => {
        impl Data for $type {
            fn value(&self) -> Value<'_> {
                let $self = self;
                $value
            }

            fn slice_name() -> &'static str {
                concat!("[]", $go)
            }

            fn map_name() -> &'static str {
                concat!("map[string]", $go)
            }
        }
    };
}

data!(bool, "bool", it => Value::Bool(*it));
data!(i64, "int", it => Value::Int(*it));
data!(i32, "int", it => Value::Int((*it).into()));
data!(u32, "int", it => Value::Int((*it).into()));
data!(u64, "uint64", it => Value::Uint(*it));
data!(usize, "int", it => i64::try_from(*it).map_or(Value::Uint(*it as u64), Value::Int));
data!(f64, "float64", it => Value::Float(*it));
data!(String, "string", it => Value::Text(Text::Borrowed(it.as_bytes())));
data!(&str, "string", it => Value::Text(Text::Borrowed(it.as_bytes())));

impl Data for str {
    fn value(&self) -> Value<'_> {
        Value::Text(Text::Borrowed(self.as_bytes()))
    }
}

impl Data for Value<'_> {
    fn value(&self) -> Value<'_> {
        self.clone()
    }
}

impl<T: Data> Data for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Nil, Data::value)
    }
}

impl<T: Data> Data for Vec<T> {
    fn value(&self) -> Value<'_> {
        Value::List(List::Borrowed(self))
    }
}

impl<T: Data> Data for BTreeMap<String, T> {
    fn value(&self) -> Value<'_> {
        Value::Map(Map::Borrowed(self))
    }
}

// === impl Sequence ===

impl<T: Data> Sequence for Vec<T> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn get(&self, index: usize) -> Option<Value<'_>> {
        self.as_slice().get(index).map(Data::value)
    }

    fn type_name(&self) -> &str {
        T::slice_name()
    }
}

// === impl Mapping ===

impl<T: Data> Mapping for BTreeMap<String, T> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn get(&self, key: &str) -> Option<Value<'_>> {
        Self::get(self, key).map(Data::value)
    }

    fn entries(&self) -> Vec<(&str, Value<'_>)> {
        self.iter().map(|(key, value)| (key.as_str(), value.value())).collect()
    }

    fn type_name(&self) -> &str {
        T::map_name()
    }
}

/// Whether elements of a type with this name are held as anything.
pub(super) fn holds_any(type_name: &str) -> bool {
    type_name.ends_with(ANY)
}
