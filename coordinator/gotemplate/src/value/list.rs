//! Lists: views of the data, or made by functions.

use std::rc::Rc;

use super::data::holds_any;
use super::{Sequence, Value};

/// A list of values, borrowed or computed.
#[derive(Clone)]
pub enum List<'a> {
    /// A view of the data.
    Borrowed(&'a (dyn Sequence + 'a)),
    /// Made by a function.
    Shared(Rc<Items<'a>>),
}

/// The elements of a list that a function made.
pub struct Items<'a> {
    items: Vec<Value<'a>>,
    type_name: &'static str,
    depth: u32,
}

// === impl List ===

impl<'a> List<'a> {
    /// A list of anything.
    pub fn of_any(items: Vec<Value<'a>>) -> Self {
        Self::shared(items, "[]interface {}")
    }

    /// A list of text.
    pub fn of_text(items: Vec<Value<'a>>) -> Self {
        Self::shared(items, "[]string")
    }

    /// A list whose type has a name.
    pub(crate) fn shared(items: Vec<Value<'a>>, type_name: &'static str) -> Self {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        Self::Shared(Rc::new(Items { items, type_name, depth }))
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Borrowed(list) => list.len(),
            Self::Shared(list) => list.items.as_slice().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at the index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Borrowed(list) => list.get(index),
            Self::Shared(list) => list.items.as_slice().get(index).cloned(),
        }
    }

    /// The elements in their order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The elements from one index to before another; nothing outside the list.
    pub(crate) fn part(&self, from: usize, to: usize) -> Self {
        let items = (from..to).filter_map(|index| self.get(index)).collect();
        let type_name = match self {
            Self::Shared(list) => list.type_name,
            Self::Borrowed(list) if list.type_name() == "[]string" => "[]string",
            Self::Borrowed(_) => "[]interface {}",
        };
        Self::shared(items, type_name)
    }

    /// The name of the type, as Go prints it.
    pub fn type_name(&self) -> &'a str {
        match self {
            Self::Borrowed(list) => list.type_name(),
            Self::Shared(list) => list.type_name,
        }
    }

    /// Whether the elements are held as anything, and not as one type.
    pub(crate) fn holds_any(&self) -> bool {
        holds_any(self.type_name())
    }

    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::Borrowed(_) => 1,
            Self::Shared(list) => list.depth,
        }
    }
}
