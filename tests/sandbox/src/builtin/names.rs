//! What names, keys and values may look like, with the words that say so.

use super::NameRule;

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// Complaints about a name under a rule; `prefix` where it is only the start of a name.
pub(super) fn check(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked;
    let name = match (prefix, rule) {
        (true, NameRule::PathSegment) => name,
        (true, _) if name.len() > 1 && name.ends_with('-') => {
            let kept: String = name.chars().take(name.chars().count() - 2).collect();
            masked = kept + "a";
            masked.as_str()
        }
        _ => name,
    };
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::Label1035 => label_1035(name),
        NameRule::PathSegment => path_segment(name, prefix),
    }
}

fn ends_well(text: &str, inner: fn(u8) -> bool, edge: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte))
        }
        _ => false,
    }
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    ends_well(text, |b| lower(b) || b == b'-', lower)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_qualified(text: &str) -> bool {
    ends_well(text, |b| alphanumeric(b) || matches!(b, b'-' | b'_' | b'.'), alphanumeric)
}

/// The words for a text that is longer than allowed.
pub(super) fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// The words for a number out of range.
pub(super) fn out_of_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn unlike(what: &str, pattern: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let examples = quoted.join(" or ");
    format!("{what} (e.g. {examples}regex used for validation is '{pattern}')")
}

/// Complaints about a lower-case DNS subdomain.
pub(super) fn subdomain(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 253 {
        found.push(too_long(253));
    }
    if !is_subdomain(name) {
        found.push(unlike(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    found
}

/// Complaints about a lower-case DNS label.
pub(super) fn label(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 63 {
        found.push(too_long(63));
    }
    if !is_label(name) {
        found.push(if is_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            unlike(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    found
}

fn label_1035(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 63 {
        found.push(too_long(63));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        found.push(unlike(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    found
}

fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Complaints about a key of labels, a finalizer or a resource name.
pub(super) fn qualified(name: &str) -> Vec<String> {
    const WHAT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let unlike = || unlike(WHAT, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut found = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                found.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = subdomain(prefix).into_iter();
                found.extend(wrong.map(|text| format!("prefix part {text}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                unlike()
            )];
        }
    };
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        found.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified(name) {
        found.push(format!("name part {}", unlike()));
    }
    found
}

/// Complaints about a label's value.
pub(super) fn label_value(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    if value.len() > 63 {
        found.push(too_long(63));
    }
    if !value.is_empty() && !is_qualified(value) {
        found.push(unlike(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    found
}

/// Complaints about a key of a config map or secret.
pub(super) fn data_key(key: &str) -> Vec<String> {
    let mut found = Vec::new();
    if key.len() > 253 {
        found.push(too_long(253));
    }
    let good =
        !key.is_empty() && key.bytes().all(|b| alphanumeric(b) || matches!(b, b'-' | b'_' | b'.'));
    if !good {
        found.push(unlike(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => found.push("must not be '.'".to_owned()),
        ".." => found.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => found.push("must not start with '..'".to_owned()),
        _ => {}
    }
    found
}

/// Complaints about the name of a container's port.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if name.len() > 15 {
        found.push(too_long(15));
    }
    if name.is_empty() || !name.bytes().all(|b| lower(b) || b == b'-') {
        found.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        found.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        found.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        found.push("must not begin or end with a hyphen".to_owned());
    }
    found
}
