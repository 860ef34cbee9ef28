//! Sets of fields, as managed fields record them.
//!
//! A [`FieldSet`] is a trie whose edges are path elements in the words of `FieldsV1`: `f:name` for a
//! field, `k:{"name":"a"}` for a list item by its keys, `v:"x"` for a member of a set, `i:0` for a
//! place in a list. The JSON of `FieldsV1` is that trie already, so it is kept as it is: a node is in
//! the set itself when it is empty or holds `.`.

use serde_json::{Map, Value};

mod element;
#[cfg(test)]
mod tests;

pub use element::{Element, Path, of_field, of_item};

const SELF: &str = ".";

/// A set of paths into an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(Map<String, Value>);

fn is_member(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Whether the node has something below it.
fn has_children(node: &Map<String, Value>) -> bool {
    node.len() > usize::from(node.contains_key(SELF))
}

fn children(node: &Map<String, Value>) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    node.iter().filter(|(key, _)| *key != SELF).filter_map(|(k, v)| Some((k, v.as_object()?)))
}

/// Puts the member bit on a node, in its shortest form. False when the node is then not in the set.
fn seal(node: &mut Map<String, Value>, member: bool) -> bool {
    node.remove(SELF);
    if member && !node.is_empty() {
        node.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    member || !node.is_empty()
}

// === impl FieldSet ===

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these paths of plain fields.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let mut below = Self::new();
            for (depth, name) in path.iter().rev().enumerate() {
                let mut above = Self::new();
                above.put(format!("f:{name}"), depth == 0, below);
                below = above;
            }
            set.union(&below);
        }
        set
    }

    /// Reads `fieldsV1`. Unknown kinds of elements are dropped; malformed ones are an error.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, String> {
        match fields {
            Value::Null => Ok(Self::new()),
            Value::Object(map) => read(map).map(|(set, _)| set),
            _ => Err("fieldsV1 is not an object".to_owned()),
        }
    }

    /// The same, given away: what is in its shortest form already, as the server writes it, is kept.
    pub fn take_fields_v1(fields: Value) -> Result<Self, String> {
        match fields {
            Value::Object(map) if !map.contains_key(SELF) && is_settled(&map) => Ok(Self(map)),
            other => Self::from_fields_v1(&other),
        }
    }

    /// The set as `fieldsV1`.
    pub fn into_fields_v1(self) -> Value {
        Value::Object(self.0)
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what is below one element, and the element itself when `member`.
    pub fn put(&mut self, element: String, member: bool, below: FieldSet) {
        let mut node = below.0;
        if !seal(&mut node, member) {
            return;
        }
        match self.0.get_mut(&element).and_then(Value::as_object_mut) {
            Some(there) => unite(there, &node),
            None => {
                self.0.insert(element, Value::Object(node));
            }
        }
    }

    /// Whether the element itself is in the set.
    pub fn has(&self, element: &str) -> bool {
        self.node(element).is_some_and(is_member)
    }

    /// What is in the set below the element.
    pub fn below(&self, element: &str) -> Option<Below<'_>> {
        self.node(element).filter(|node| has_children(node)).map(Below)
    }

    /// The whole set, for walking.
    pub fn view(&self) -> Below<'_> {
        Below(&self.0)
    }

    fn node(&self, element: &str) -> Option<&Map<String, Value>> {
        self.0.get(element).and_then(Value::as_object)
    }

    /// Adds all of another set.
    pub fn union(&mut self, other: &Self) {
        for (key, node) in children(&other.0) {
            match self.0.get_mut(key).and_then(Value::as_object_mut) {
                Some(there) => unite(there, node),
                None => {
                    self.0.insert(key.clone(), Value::Object(node.clone()));
                }
            }
        }
    }

    /// Removes all paths of another set. True when anything changed.
    pub fn subtract(&mut self, other: &Self) -> bool {
        subtract(&mut self.0, &other.0, false)
    }

    /// Removes all paths of another set, and all below them. True when anything changed.
    pub fn subtract_deep(&mut self, other: &Self) -> bool {
        subtract(&mut self.0, &other.0, true)
    }

    /// The paths in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(intersect(&self.0, &other.0))
    }

    /// All paths in the order in which Kubernetes lists them: at each level the members first.
    pub fn paths(&self) -> Vec<Path> {
        let mut all = Vec::new();
        list(&self.0, &mut Vec::new(), &mut all);
        all
    }
}

fn unite(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    let member = is_member(into) || is_member(from);
    for (key, node) in children(from) {
        match into.get_mut(key).and_then(Value::as_object_mut) {
            Some(there) => unite(there, node),
            None => {
                into.insert(key.clone(), Value::Object(node.clone()));
            }
        }
    }
    seal(into, member);
}

fn subtract(from: &mut Map<String, Value>, what: &Map<String, Value>, deep: bool) -> bool {
    let mut changed = false;
    for (key, gone) in children(what) {
        let Some(node) = from.get_mut(key).and_then(Value::as_object_mut) else { continue };
        if deep && is_member(gone) {
            from.remove(key);
            changed = true;
            continue;
        }
        let was = is_member(node);
        let is = was && !is_member(gone);
        // The bit goes first, so that a node left empty is not taken for a member.
        let below = subtract(node, gone, deep);
        if below || was != is {
            changed = true;
            if !seal(node, is) {
                from.remove(key);
            }
        }
    }
    changed
}

fn intersect(a: &Map<String, Value>, b: &Map<String, Value>) -> Map<String, Value> {
    let mut both = Map::new();
    for (key, left) in children(a) {
        let Some(right) = b.get(key).and_then(Value::as_object) else { continue };
        let mut node = intersect(left, right);
        if seal(&mut node, is_member(left) && is_member(right)) {
            both.insert(key.clone(), Value::Object(node));
        }
    }
    both
}

fn read(map: &Map<String, Value>) -> Result<(FieldSet, bool), String> {
    let mut set = FieldSet::new();
    let mut member = false;
    for (key, value) in map {
        if key == SELF {
            member = true;
            continue;
        }
        let Some(element) = element::canonical(key)? else { continue };
        let empty = Map::new();
        let (below, member) = match value {
            Value::Object(node) => read(node)?,
            Value::Null => read(&empty)?,
            _ => return Err(format!("{key}: not an object")),
        };
        set.put(element, member, below);
    }
    let member = member || set.is_empty();
    Ok((set, member))
}

/// Whether [`read`] would leave the node as it is.
fn is_settled(node: &Map<String, Value>) -> bool {
    node.iter().all(|(key, value)| match value {
        Value::Object(below) if key == SELF => below.is_empty() && node.len() > 1,
        Value::Object(below) => element::is_plain(key) && is_settled(below),
        _ => false,
    })
}

fn list(node: &Map<String, Value>, prefix: &mut Vec<Element>, all: &mut Vec<Path>) {
    let mut here: Vec<(Element, &Map<String, Value>)> =
        children(node).map(|(key, node)| (Element::parse(key), node)).collect();
    here.sort_by(|a, b| a.0.order(&b.0));
    for (element, _) in here.iter().filter(|(_, node)| is_member(node)) {
        prefix.push(element.clone());
        all.push(Path(prefix.clone()));
        prefix.pop();
    }
    for (element, node) in here {
        if has_children(node) {
            prefix.push(element);
            list(node, prefix, all);
            prefix.pop();
        }
    }
}

/// A part of a set, for walking beside a value.
#[derive(Debug, Clone, Copy)]
pub struct Below<'a>(&'a Map<String, Value>);

// === impl Below ===

impl<'a> Below<'a> {
    /// Whether the element itself is in the set.
    pub fn has(self, element: &str) -> bool {
        self.0.get(element).and_then(Value::as_object).is_some_and(is_member)
    }

    /// What is in the set below the element.
    pub fn below(self, element: &str) -> Option<Below<'a>> {
        self.0.get(element).and_then(Value::as_object).filter(|n| has_children(n)).map(Below)
    }

    /// Every element with what is below it, and whether it is in the set itself.
    pub fn nodes(self) -> impl Iterator<Item = (&'a str, Below<'a>, bool)> {
        children(self.0).map(|(key, node)| (key.as_str(), Below(node), is_member(node)))
    }

    /// A copy, as a set of its own.
    pub fn to_set(self) -> FieldSet {
        let mut map = self.0.clone();
        map.remove(SELF);
        FieldSet(map)
    }
}
