//! Fields: `.A.B`, `$x.A`, `(pipeline).A`.

use super::{Held, Machine, MissingKey, Source, Stop};
use crate::code::Names;
use crate::print::receiver_type;
use crate::quote::quoted;
use crate::tree::NodeId;
use crate::value::Value;

impl<'a> Machine<'a, '_> {
    /// Pushes what the names lead to.
    #[inline]
    pub(super) fn load(&mut self, at: NodeId, from: Source, names: Names) -> Result<(), Stop> {
        self.mark(at);
        let table = &self.setting.program.names;
        let start = names.start as usize;
        let mut chain = table.get(start..start + names.count as usize).unwrap_or_default().iter();
        let top;
        let base = match from {
            Source::Dot => self.dots.last(),
            Source::Slot(slot) => self.variables.get(self.base + slot as usize),
            Source::Top => {
                top = Held { value: self.pop(), held: self.held };
                Some(&top)
            }
        };
        let (base, held) = base.map_or((&Value::Missing, false), |base| (&base.value, base.held));
        // What is only looked into is not copied.
        let (mut value, mut held) = match chain.next() {
            Some(name) => self.field(base, held, name, names.called && chain.len() == 0)?,
            None => (base.clone(), held),
        };
        while let Some(name) = chain.next() {
            (value, held) = self.field(&value, held, name, names.called && chain.len() == 0)?;
        }
        if names.unbox {
            held = false;
            if matches!(value, Value::Nil) {
                value = Value::Missing;
            }
        }
        self.held = held;
        self.stack.push(value);
        Ok(())
    }

    /// One field of a value, and whether a map of anything holds it.
    #[inline]
    fn field(
        &self,
        value: &Value<'a>,
        held: bool,
        name: &str,
        called: bool,
    ) -> Result<(Value<'a>, bool), Stop> {
        match value {
            Value::Struct(fields) => {
                if let Some(index) = fields.fields().iter().position(|field| *field == name) {
                    if called {
                        let message =
                            format!("{name} has arguments but cannot be invoked as function");
                        return Err(Stop::Exec(message));
                    }
                    return Ok((fields.field(index), false));
                }
            }
            Value::Map(map) => {
                if called {
                    return Err(Stop::Exec(format!("{name} is not a method but has arguments")));
                }
                return match (map.get(name.as_bytes()), self.setting.missing_key) {
                    (Some(value), _) => Ok((value, map.holds_any())),
                    (None, MissingKey::Default) => Ok((Value::Missing, false)),
                    (None, MissingKey::Zero) => Ok((map.zero(), map.holds_any())),
                    (None, MissingKey::Error) => {
                        Err(Stop::Exec(format!("map has no entry for key {}", quoted(name))))
                    }
                };
            }
            Value::Missing if self.setting.missing_key == MissingKey::Error => {
                return Err(Stop::Exec(format!("nil data; no entry for key {}", quoted(name))));
            }
            Value::Missing => return Ok((Value::Missing, false)),
            Value::Nil => {
                return Err(Stop::Exec(format!("nil pointer evaluating interface {{}}.{name}")));
            }
            _ => {}
        }
        Err(Stop::Exec(format!(
            "can't evaluate field {name} in type {}",
            receiver_type(value, held)
        )))
    }
}
