//! What an expression is worth for a device.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    SelectorError, Subject, Value,
    parse::{Each, Expr},
    value::Facts,
};
use crate::{input::AttributeValue, selector::Version};

/// How deep an expression may go, chains of operators included.
const DEEPEST: usize = 200;

/// One answer in the making.
pub(super) struct Evaluation<'a> {
    device: Subject<'a>,
    left: u64,
    depth: usize,
    names: Vec<Value>,
}

type Answer = Result<Value, SelectorError>;

// === impl Evaluation ===

impl<'a> Evaluation<'a> {
    pub(super) fn new(device: Subject<'a>, steps: u64) -> Self {
        Self { device, left: steps, depth: 0, names: Vec::new() }
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), SelectorError> {
        let steps = steps as u64;
        if steps > self.left {
            self.left = 0;
            return Err(SelectorError::TooLong);
        }
        self.left -= steps;
        Ok(())
    }

    pub(super) fn run(&mut self, expr: &Expr) -> Answer {
        self.spend(1)?;
        if self.depth >= DEEPEST {
            return Err(SelectorError::no("it is too deep: write a flatter selector"));
        }
        self.depth += 1;
        let answer = self.one(expr);
        self.depth -= 1;
        answer
    }

    fn one(&mut self, expr: &Expr) -> Answer {
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Name(at) => Ok(self.names.get(*at).cloned().unwrap_or(Value::Null)),
            Expr::Device => Ok(Value::Device),
            Expr::Field { of, name, optional } => {
                let of = self.run(of)?;
                self.look(&of, name, *optional)
            }
            Expr::Has(of, name) => {
                let of = self.run(of)?;
                Ok(Value::Bool(self.find(&of, name)?.is_some()))
            }
            Expr::Index { of, key, optional } => {
                let (of, key) = (self.run(of)?, self.run(key)?);
                self.index(&of, &key, *optional)
            }
            Expr::List(list) => {
                let values: Result<Vec<Value>, _> = list.iter().map(|one| self.run(one)).collect();
                Ok(Value::List(values?.into()))
            }
            Expr::Map(entries) => {
                let mut map = BTreeMap::new();
                for (key, value) in entries {
                    let Value::Text(key) = self.run(key)? else {
                        return Err(SelectorError::no("keys of maps have to be texts"));
                    };
                    map.insert(key.to_string(), self.run(value)?);
                }
                Ok(Value::Map(Rc::new(map)))
            }
            Expr::Not(inner) => match self.run(inner)? {
                Value::Bool(yes) => Ok(Value::Bool(!yes)),
                other => Err(SelectorError::no(format!("! of {}", other.kind()))),
            },
            Expr::Negative(inner) => match self.run(inner)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
                Value::Double(value) => Ok(Value::Double(-value)),
                other => Err(SelectorError::no(format!("- of {}", other.kind()))),
            },
            Expr::Binary(sign, left, right) => {
                let (left, right) = (self.run(left)?, self.run(right)?);
                self.binary(sign, &left, &right)
            }
            Expr::And(left, right) => self.logic(left, right, false),
            Expr::Or(left, right) => self.logic(left, right, true),
            Expr::If(parts) => {
                let [condition, yes, no] = parts.as_ref();
                match self.run(condition)? {
                    Value::Bool(true) => self.run(yes),
                    Value::Bool(false) => self.run(no),
                    other => Err(SelectorError::no(format!("? after {}", other.kind()))),
                }
            }
            Expr::Call(function, arguments) => {
                let values: Result<Vec<Value>, _> =
                    arguments.iter().map(|one| self.run(one)).collect();
                (function.run)(self, &values?)
            }
            Expr::Matches(of, pattern) => match self.run(of)? {
                Value::Text(text) => {
                    self.spend(1 + text.len() / 4)?;
                    Ok(Value::Bool(pattern.is_match(&text)))
                }
                other => Err(SelectorError::no(format!("matches of {}", other.kind()))),
            },
            Expr::Each { how, list, bodies } => self.each(*how, list, bodies),
            Expr::Bind(value, body) => {
                let value = self.run(value)?;
                self.named(value, body)
            }
        }
    }

    fn named(&mut self, value: Value, body: &Expr) -> Answer {
        self.names.push(value);
        let answer = self.run(body);
        self.names.pop();
        answer
    }

    /// `&&` and `||`: one side that decides makes up for the other having no answer.
    fn logic(&mut self, left: &Expr, right: &Expr, decides: bool) -> Answer {
        let first = self.truth(left);
        if first == Ok(decides) || first == Err(SelectorError::TooLong) {
            return first.map(Value::Bool);
        }
        match (first, self.truth(right)) {
            (_, Ok(second)) if second == decides => Ok(Value::Bool(decides)),
            (Ok(_), Ok(second)) => Ok(Value::Bool(second)),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn truth(&mut self, expr: &Expr) -> Result<bool, SelectorError> {
        match self.run(expr)? {
            Value::Bool(yes) => Ok(yes),
            other => Err(SelectorError::no(format!("{} is not true or false", other.kind()))),
        }
    }

    fn look(&mut self, of: &Value, name: &str, optional: bool) -> Answer {
        let found = match of {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                return Ok(Value::Optional(self.find(inner, name)?.map(Rc::new)));
            }
            _ => self.find(of, name)?,
        };
        match found {
            found if optional => Ok(Value::Optional(found.map(Rc::new))),
            Some(value) => Ok(value),
            None => Err(match of {
                Value::Domain(Facts::Attributes, domain) => {
                    SelectorError::no(format!("the device has no attribute {domain}/{name}"))
                }
                Value::Domain(Facts::Capacity, domain) => {
                    SelectorError::no(format!("the device has no capacity {domain}/{name}"))
                }
                _ => SelectorError::no(format!("there is no {name}")),
            }),
        }
    }

    /// What a map has under a name.
    pub(super) fn find(&mut self, of: &Value, name: &str) -> Result<Option<Value>, SelectorError> {
        Ok(match of {
            Value::Map(map) => map.get(name).cloned(),
            Value::Device => match name {
                "driver" => Some(Value::text(self.device.driver)),
                "attributes" => Some(Value::Domains(Facts::Attributes)),
                "capacity" => Some(Value::Domains(Facts::Capacity)),
                "allowMultipleAllocations" => Some(Value::Bool(self.device.shared)),
                _ => None,
            },
            // A domain that the device does not have is an empty one.
            Value::Domains(facts) => Some(Value::Domain(*facts, name.into())),
            Value::Domain(facts, domain) => self.fact(*facts, domain, name)?,
            other => return Err(SelectorError::no(format!("{} has no fields", other.kind()))),
        })
    }

    fn fact(
        &mut self,
        facts: Facts,
        domain: &str,
        name: &str,
    ) -> Result<Option<Value>, SelectorError> {
        self.spend(1 + (domain.len() + name.len()) / 16)?;
        let full = format!("{domain}/{name}");
        let own = (domain == self.device.driver).then_some(name);
        let keys = [Some(full.as_str()), own];
        let mut keys = keys.into_iter().flatten();
        match facts {
            Facts::Attributes => {
                keys.find_map(|key| self.device.attributes.get(key)).map(attribute).transpose()
            }
            Facts::Capacity => {
                Ok(keys.find_map(|key| self.device.capacity.get(key)).copied().map(Value::Quantity))
            }
        }
    }

    fn index(&mut self, of: &Value, key: &Value, optional: bool) -> Answer {
        match (of, key) {
            (Value::Optional(None), _) => Ok(Value::Optional(None)),
            (Value::Optional(Some(inner)), _) => self.index(&inner.clone(), key, true),
            (Value::List(list), Value::Int(at)) => {
                let found = usize::try_from(*at).ok().and_then(|at| list.get(at)).cloned();
                match found {
                    found if optional => Ok(Value::Optional(found.map(Rc::new))),
                    found => found.ok_or_else(|| SelectorError::no(format!("there is no [{at}]"))),
                }
            }
            (_, Value::Text(name)) => self.look(of, name, optional),
            (of, key) => {
                Err(SelectorError::no(format!("{} cannot be asked for {}", of.kind(), key.kind())))
            }
        }
    }

    /// Everything in a list, or the keys of a map.
    pub(super) fn items(&mut self, of: &Value) -> Result<Vec<Value>, SelectorError> {
        let items: Vec<Value> = match of {
            Value::List(list) => list.to_vec(),
            Value::Map(map) => map.keys().map(|key| Value::text(key)).collect(),
            Value::Domains(facts) => {
                let mut domains: Vec<&str> = self.keys(*facts).map(|(domain, _)| domain).collect();
                domains.sort_unstable();
                domains.dedup();
                domains.into_iter().map(Value::text).collect()
            }
            Value::Domain(facts, domain) => self
                .keys(*facts)
                .filter(|(of, _)| *of == domain.as_ref())
                .map(|(_, name)| Value::text(name))
                .collect(),
            other => return Err(SelectorError::no(format!("{} is no list", other.kind()))),
        };
        self.spend(items.len())?;
        Ok(items)
    }

    /// Names of facts, with their domain.
    fn keys(&self, facts: Facts) -> impl Iterator<Item = (&'a str, &'a str)> {
        let device = self.device;
        let attributes = (facts == Facts::Attributes).then(|| device.attributes.keys());
        let capacity = (facts == Facts::Capacity).then(|| device.capacity.keys());
        let keys = attributes.into_iter().flatten().chain(capacity.into_iter().flatten());
        keys.map(move |key| key.split_once('/').unwrap_or((device.driver, key)))
    }

    fn each(&mut self, how: Each, list: &Expr, bodies: &[Expr]) -> Answer {
        let list = self.run(list)?;
        let items = self.items(&list)?;
        let (mut kept, mut count, mut failed) = (Vec::new(), 0, None);
        for item in items {
            let answer = match (how, bodies) {
                (Each::Map, [one]) => {
                    kept.push(self.named(item, one)?);
                    continue;
                }
                (_, [condition, ..]) => self.named(item.clone(), condition),
                _ => continue,
            };
            let yes = match answer {
                Ok(Value::Bool(yes)) => yes,
                Ok(other) => {
                    return Err(SelectorError::no(format!("{} is no condition", other.kind())));
                }
                // As with && and ||, one item that decides makes up for others without an answer.
                Err(error)
                    if matches!(how, Each::All | Each::Exists)
                        && error != SelectorError::TooLong =>
                {
                    failed = failed.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            count += usize::from(yes);
            match (how, bodies) {
                (Each::All, _) if !yes => return Ok(Value::Bool(false)),
                (Each::Exists, _) if yes => return Ok(Value::Bool(true)),
                (Each::Filter, _) if yes => kept.push(item),
                (Each::Map, [_, value]) if yes => kept.push(self.named(item, value)?),
                _ => {}
            }
        }
        match (how, failed) {
            (_, Some(error)) => Err(error),
            (Each::All, None) => Ok(Value::Bool(true)),
            (Each::Exists, None) => Ok(Value::Bool(false)),
            (Each::ExistsOne, None) => Ok(Value::Bool(count == 1)),
            (Each::Filter | Each::Map, None) => Ok(Value::List(kept.into())),
        }
    }

    fn binary(&mut self, sign: &str, left: &Value, right: &Value) -> Answer {
        let yes = |yes: bool| Ok(Value::Bool(yes));
        match sign {
            "==" => yes(left.equals(right)),
            "!=" => yes(!left.equals(right)),
            "<" => yes(left.order(right)?.is_some_and(|order| order.is_lt())),
            "<=" => yes(left.order(right)?.is_some_and(|order| order.is_le())),
            ">" => yes(left.order(right)?.is_some_and(|order| order.is_gt())),
            ">=" => yes(left.order(right)?.is_some_and(|order| order.is_ge())),
            "in" => match (left, right) {
                (_, Value::List(list)) => {
                    self.spend(list.len())?;
                    yes(list.iter().any(|item| item.equals(left)))
                }
                (Value::Text(name), Value::Domains(_)) => {
                    let items = self.items(right)?;
                    yes(items.iter().any(|item| item.equals(&Value::Text(name.clone()))))
                }
                (Value::Text(name), Value::Map(_) | Value::Domain(..)) => {
                    yes(self.find(right, name)?.is_some())
                }
                (_, Value::Map(_) | Value::Domain(..) | Value::Domains(_)) => yes(false),
                _ => Err(SelectorError::no(format!("in of {}", right.kind()))),
            },
            _ => self.arithmetic(sign, left, right),
        }
    }

    fn arithmetic(&mut self, sign: &str, left: &Value, right: &Value) -> Answer {
        match (sign, left, right) {
            ("+", Value::Text(a), Value::Text(b)) => {
                self.spend((a.len() + b.len()) / 8)?;
                Ok(Value::Text(format!("{a}{b}").into()))
            }
            ("+", Value::List(a), Value::List(b)) => {
                self.spend(a.len() + b.len())?;
                Ok(Value::List(a.iter().chain(b.iter()).cloned().collect()))
            }
            (_, Value::Int(a), Value::Int(b)) => match sign {
                "+" => a.checked_add(*b),
                "-" => a.checked_sub(*b),
                "*" => a.checked_mul(*b),
                "/" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .map(Value::Int)
            .ok_or_else(overflow),
            (_, Value::Uint(a), Value::Uint(b)) => match sign {
                "+" => a.checked_add(*b),
                "-" => a.checked_sub(*b),
                "*" => a.checked_mul(*b),
                "/" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            }
            .map(Value::Uint)
            .ok_or_else(overflow),
            ("+", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            ("-", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
            ("*", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
            ("/", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
            _ => Err(SelectorError::no(format!("{} {sign} {}", left.kind(), right.kind()))),
        }
    }
}

fn overflow() -> SelectorError {
    SelectorError::no("a number is too large, or divided by zero")
}

/// What an attribute is worth.
fn attribute(value: &AttributeValue) -> Answer {
    Ok(match value {
        AttributeValue::Int(value) => Value::Int(*value),
        AttributeValue::Bool(value) => Value::Bool(*value),
        AttributeValue::String(text) => Value::text(text),
        AttributeValue::Version(text) => match Version::parse(text) {
            Some(version) => Value::Version(Rc::new(version)),
            None => return Err(SelectorError::no(format!("`{text}` is no version"))),
        },
    })
}
