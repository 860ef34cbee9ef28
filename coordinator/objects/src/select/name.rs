//! What Kubernetes takes for a label key or value.

use std::sync::LazyLock;

use regex::Regex;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn whole(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).ok()
}

fn fits(regex: &Option<Regex>, text: &str) -> bool {
    regex.as_ref().is_none_or(|r| r.is_match(text))
}

fn name_rule() -> String {
    format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
    )
}

/// What is wrong with a label key.
pub(super) fn key_problem(key: &str) -> Option<String> {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(NAME));
    static PREFIXES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(SUBDOMAIN));
    let parts: Vec<&str> = key.split('/').collect();
    let mut wrong: Vec<String> = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".into());
            } else {
                if prefix.len() > 253 {
                    wrong.push("prefix part must be no more than 253 characters".into());
                }
                if !fits(&PREFIXES, prefix) {
                    wrong.push(format!("prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"));
                }
            }
            *name
        }
        _ => {
            return Some(format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                name_rule()
            ));
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 characters".into());
    }
    if !fits(&NAMES, name) {
        wrong.push(format!("name part {}", name_rule()));
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// What is wrong with a label value.
pub(super) fn value_problem(value: &str) -> Option<String> {
    static VALUES: LazyLock<Option<Regex>> = LazyLock::new(|| whole(&format!("({NAME})?")));
    let mut wrong: Vec<String> = Vec::new();
    if value.len() > 63 {
        wrong.push("must be no more than 63 characters".into());
    }
    if !fits(&VALUES, value) {
        wrong.push(format!("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({NAME})?')"));
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}
