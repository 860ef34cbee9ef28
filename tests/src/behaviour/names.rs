//! The names of a case: `${ns}`, `${rand}`, the file's variables and what earlier answers gave.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use serde_json::{Map, Value};

use super::{
    case::{CaseStep, Expect},
    expect::text,
};

/// Names and their values.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Value>);

// === impl Names ===

impl Names {
    /// Gives `name` a value.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of `name`, as text.
    pub fn get(&self, name: &str) -> String {
        self.0.get(name).map(text).unwrap_or_default()
    }

    /// `template` with every `${name}` replaced.
    pub fn fill(&self, template: &str) -> anyhow::Result<String> {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, tail) =
                after.split_once('}').ok_or_else(|| anyhow!("no end of a name in {template:?}"))?;
            let Some(value) = self.0.get(name) else {
                bail!("nothing is called {name:?} in {template:?}");
            };
            out.push_str(before);
            out.push_str(&self.fill(&text(value))?);
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// A value with every name in its keys and strings replaced. A string that is nothing but one name becomes
    /// that name's value, number or not.
    pub fn fill_value(&self, value: &Value) -> anyhow::Result<Value> {
        Ok(match value {
            Value::String(text) => {
                let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                match name.and_then(|name| self.0.get(name)) {
                    Some(value) if !value.is_string() => value.clone(),
                    _ => self.fill(text)?.into(),
                }
            }
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.fill_value(item)).collect::<Result<_, _>>()?,
            ),
            Value::Object(map) => {
                let mut filled = Map::new();
                for (key, value) in map {
                    filled.insert(self.fill(key)?, self.fill_value(value)?);
                }
                filled.into()
            }
            other => other.clone(),
        })
    }

    /// An expectation with every name replaced.
    pub fn fill_expect(&self, expect: &Expect) -> anyhow::Result<Expect> {
        let mut filled = expect.clone();
        for value in filled.body.iter_mut().chain(filled.events.iter_mut().flatten()) {
            *value = self.fill_value(value)?;
        }
        for value in filled.managers.iter_mut().flat_map(|map| map.values_mut()) {
            *value = self.fill_value(value)?;
        }
        for text in filled.message.iter_mut().chain(filled.warnings.iter_mut().flatten()) {
            *text = self.fill(text)?;
        }
        for text in filled.differs.values_mut() {
            *text = self.fill(text)?;
        }
        Ok(filled)
    }

    /// Keeps what `step` wants to know of a body.
    pub fn capture(&mut self, step: &CaseStep, body: &Value) -> anyhow::Result<()> {
        for (name, pointer) in &step.capture {
            let value = body.pointer(pointer).ok_or_else(|| anyhow!("no {pointer} to keep"))?;
            self.0.insert(name.clone(), value.clone());
        }
        Ok(())
    }
}
