//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),!g,h`, and the `LabelSelector` object.

use serde_json::Value;

use super::name::{key_problem, value_problem};
use super::parser::Parser;
use crate::status::Status;

/// A conjunction of conditions on labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// The values that the label is compared with.
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Present with one of the values (`=` is this with one value).
    In,
    /// Absent, or with none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// An integer above the value.
    GreaterThan,
    /// An integer below the value.
    LessThan,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads the text of a query parameter.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut requirements = Parser::new(text).selector().map_err(Status::bad_request)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a `LabelSelector` object. Absent selects nothing, empty everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, Status> {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in
            selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten()
        {
            let values = vec![value.as_str().unwrap_or("").to_owned()];
            requirements.push(requirement(key, Operator::In, values, true)?);
        }
        for rule in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten()
        {
            let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or("");
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Status::bad_request(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            let values = rule.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            requirements.push(requirement(text("key"), operator, values.collect(), false)?);
        }
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a plain map of labels, as in a Service's `spec.selector`.
    pub fn from_map(labels: &Value) -> Self {
        let pairs = labels.as_object().into_iter().flatten();
        let requirements = pairs.map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or("").to_owned()],
        });
        Self { requirements: requirements.collect(), nothing: false }
    }

    /// Whether the object's labels meet all conditions.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|m| m.get("labels")).unwrap_or(&Value::Null);
        self.matches_labels(labels)
    }

    /// Whether a map of labels meets all conditions.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Whether there is no condition.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The conditions, all of which must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

fn requirement(
    key: &str,
    operator: Operator,
    values: Vec<String>,
    exact: bool,
) -> Result<Requirement, Status> {
    Requirement::new(key, operator, values, exact).map_err(Status::bad_request)
}

// === impl Requirement ===

impl Requirement {
    /// A checked condition; what is wrong in Kubernetes' words.
    pub(super) fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        exact: bool,
    ) -> Result<Self, String> {
        let mut wrong = Vec::new();
        if let Some(why) = key_problem(key) {
            wrong.push(format!("key: Invalid value: {key:?}: {why}"));
        }
        let listed = Value::from(values.clone());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() && !exact => wrong.push(format!(
                "values: Invalid value: {listed}: for 'in', 'notin' operators, values set can't be empty"
            )),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => wrong.push(format!(
                "values: Invalid value: {listed}: values set must be empty for exists and does not exist"
            )),
            Operator::GreaterThan | Operator::LessThan => {
                for (at, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        wrong.push(format!(
                            "values[{at}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                        ));
                    }
                }
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            if let Some(why) = value_problem(value) {
                wrong.push(format!("values[{at}][{key}]: Invalid value: {value:?}: {why}"));
            }
        }
        match wrong.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn matches(&self, labels: &Value) -> bool {
        let label = labels.get(&self.key).and_then(Value::as_str);
        let listed = |label: &str| self.values.iter().any(|v| v == label);
        let compare = |want: std::cmp::Ordering| {
            let number = label.and_then(|l| l.parse::<i64>().ok());
            let bound = self.values.first().and_then(|v| v.parse::<i64>().ok());
            number.zip(bound).is_some_and(|(n, b)| n.cmp(&b) == want)
        };
        match self.operator {
            Operator::In => label.is_some_and(listed),
            Operator::NotIn => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => compare(std::cmp::Ordering::Greater),
            Operator::LessThan => compare(std::cmp::Ordering::Less),
        }
    }
}
