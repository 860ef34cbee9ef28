//! What a parser template wrote, before it is known to be a pod.

use serde_json::Value as Json;

/// A value of YAML or JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the text; every key once.
    Map(Vec<(String, Node)>),
}

// === impl Node ===

impl Node {
    /// A scalar as text; nothing is the empty text.
    pub(super) fn into_text(self, what: &str) -> Result<String, String> {
        match self {
            Self::Null => Ok(String::new()),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Int(value) => Ok(value.to_string()),
            Self::Float(value) => Ok(float_text(value)),
            Self::Text(text) => Ok(text),
            Self::List(_) => Err(format!("{what} is a list, a text is expected")),
            Self::Map(_) => Err(format!("{what} is a mapping, a text is expected")),
        }
    }

    pub(super) fn into_list(self, what: &str) -> Result<Vec<Self>, String> {
        match self {
            Self::Null => Ok(Vec::new()),
            Self::List(items) => Ok(items),
            _ => Err(format!("{what} is no list")),
        }
    }

    pub(super) fn into_map(self, what: &str) -> Result<Vec<(String, Self)>, String> {
        match self {
            Self::Null => Ok(Vec::new()),
            Self::Map(entries) => Ok(entries),
            _ => Err(format!("{what} is no mapping")),
        }
    }

    pub(super) fn into_json(self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(value),
            Self::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => Json::String(value.to_string()),
            },
            Self::Float(value) => value.into(),
            Self::Text(text) => Json::String(text),
            Self::List(items) => items.into_iter().map(Self::into_json).collect(),
            Self::Map(entries) => Json::Object(
                entries.into_iter().map(|(key, node)| (key, node.into_json())).collect(),
            ),
        }
    }
}

/// The shortest digits that give the same float again; with an exponent beyond six digits, as Go's `%g` writes.
fn float_text(value: f64) -> String {
    let shown = format!("{value:e}");
    let Some((digits, exponent)) = shown.split_once('e') else { return shown };
    match exponent.parse::<i32>() {
        Ok(exponent) if (-4..6).contains(&exponent) => value.to_string(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        Err(_) => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_the_text_that_go_gives_them() {
        for (value, text) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (1.5e-7, "1.5e-07"),
            (67_108_864.0, "6.7108864e+07"),
            (-2.25, "-2.25"),
        ] {
            assert_eq!(float_text(value), text);
        }
    }
}
