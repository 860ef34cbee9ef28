//! Loops: over integers, lists and maps.

use super::{Held, Machine, Stop};
use crate::code::Slot;
use crate::value::{List, Text, Value};

/// A loop that is running.
pub(super) struct Loop<'a> {
    items: Items<'a>,
    next: usize,
    count: usize,
    /// Whether elements are held as anything.
    held: bool,
    first: Option<Slot>,
    second: Option<Slot>,
    /// How many dots there were before it.
    dots: usize,
}

enum Items<'a> {
    Int,
    Uint,
    Byte,
    List(List<'a>),
    Map(Vec<(Text<'a>, Value<'a>)>),
}

impl<'a> Machine<'a, '_> {
    /// Starts a loop over the top value with its first element; false if there is none.
    pub(super) fn start_loop(
        &mut self,
        first: Option<Slot>,
        second: Option<Slot>,
    ) -> Result<bool, Stop> {
        let value = self.pop();
        let whole = |count: Option<usize>, items: Items<'a>| {
            if second.is_some() {
                let shown = crate::print::shown(&value);
                return Err(Stop::Exec(format!(
                    "can't use {shown} to iterate over more than one variable"
                )));
            }
            Ok((items, count.unwrap_or(0), false))
        };
        let (items, count, held) = match &value {
            Value::Missing | Value::Nil => return Ok(false),
            Value::Int(number) => whole(usize::try_from(*number).ok(), Items::Int)?,
            Value::Uint(number) => whole(usize::try_from(*number).ok(), Items::Uint)?,
            Value::Byte(number) => whole(Some((*number).into()), Items::Byte)?,
            Value::List(list) => (Items::List(list.clone()), list.len(), list.holds_any()),
            Value::Map(map) => {
                let entries = map.entries();
                let count = entries.len();
                // All entries were just looked at, however soon the loop ends.
                self.steps = self.steps.saturating_sub(count as u64);
                (Items::Map(entries), count, map.holds_any())
            }
            other => {
                return Err(Stop::Exec(format!(
                    "range can't iterate over {}",
                    crate::print::shown(other)
                )));
            }
        };
        if count == 0 {
            return Ok(false);
        }
        let dots = self.dots.len();
        self.loops.push(Loop { items, next: 0, count, held, first, second, dots });
        Ok(self.advance())
    }

    /// Goes to the next element of the innermost loop, or ends it.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let Some(running) = self.loops.last_mut().filter(|running| running.next < running.count)
        else {
            self.end_loop();
            return false;
        };
        let index = running.next;
        running.next += 1;
        let int = i64::try_from(index).unwrap_or(i64::MAX);
        let (key, value) = match &running.items {
            Items::Int => (Value::Missing, Value::Int(int)),
            Items::Uint => (Value::Missing, Value::Uint(int.unsigned_abs())),
            Items::Byte => (Value::Missing, Value::Byte(u8::try_from(index).unwrap_or(u8::MAX))),
            Items::List(list) => (Value::Int(int), list.get(index).unwrap_or(Value::Missing)),
            Items::Map(entries) => match entries.get(index) {
                Some((key, value)) => (Value::Text(key.clone()), value.clone()),
                None => (Value::Missing, Value::Missing),
            },
        };
        let Loop { held, first, second, dots, .. } = *running;
        // One variable takes the element, two take the index and the element.
        match (first, second) {
            (Some(first), Some(second)) => {
                self.store(first, key, false);
                self.store(second, value.clone(), held);
            }
            (Some(first), None) => self.store(first, value.clone(), held),
            (None, _) => {}
        }
        self.dots.truncate(dots);
        self.dots.push(Held { value, held });
        true
    }

    /// Forgets the innermost loop and the dots in it.
    pub(super) fn end_loop(&mut self) {
        if let Some(ended) = self.loops.pop() {
            self.dots.truncate(ended.dots);
        }
    }
}
