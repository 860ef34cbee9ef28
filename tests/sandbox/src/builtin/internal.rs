//! Pods and claims as error messages show them: in the server's own structs, whose fields have
//! other names and another order than the API's, and as a difference of two of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

mod difference;

/// Struct to fields, each with its name, when it is left out, and its type.
type Structs = HashMap<&'static str, Vec<(&'static str, &'static str, &'static str)>>;

static STRUCTS: LazyLock<Structs> = LazyLock::new(|| {
    let mut structs = Structs::new();
    let mut current = "";
    for line in include_str!("internal.txt").lines().filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix('#') {
            current = name;
            structs.insert(name, Vec::new());
        } else {
            let mut parts = line.splitn(3, ' ');
            if let (Some(name), Some(flag), Some(ty)) = (parts.next(), parts.next(), parts.next()) {
                structs.entry(current).or_default().push((name, flag, ty));
            }
        }
    }
    structs
});

/// Where the text goes, on one line or indented.
struct Printer {
    out: String,
    pretty: bool,
    depth: usize,
}

/// A pod template on one line.
pub(super) fn template(template: &Value) -> String {
    let mut flat =
        template.get("metadata").cloned().unwrap_or_else(|| Value::Object(Default::default()));
    if let Value::Object(fields) = &mut flat {
        fields.insert("spec".to_owned(), template.get("spec").cloned().unwrap_or_default());
    }
    print("#core.PodTemplateSpec", &flat, false)
}

/// How two pod specs differ, as lines with some context.
pub(super) fn pod_spec_difference(old: &Value, new: &Value) -> String {
    difference_of("#core.PodSpec", old, new)
}

/// How two claims differ, as lines with some context.
pub(super) fn claim_spec_difference(old: &Value, new: &Value) -> String {
    difference_of("#core.PersistentVolumeClaimSpec", old, new)
}

fn difference_of(ty: &str, old: &Value, new: &Value) -> String {
    difference::unified(&print(ty, old, true), &print(ty, new, true))
}

fn print(ty: &str, value: &Value, pretty: bool) -> String {
    let mut printer = Printer { out: String::new(), pretty, depth: 0 };
    printer.value(ty, Some(value));
    printer.out
}

/// Host settings stand in the security context of the server's pods.
fn pod_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Value::Object(fields) = &mut spec else { return spec };
    let keys = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];
    let moved: Vec<(&str, Value)> =
        keys.iter().filter_map(|key| Some((*key, fields.remove(*key)?))).collect();
    if let Some(Value::Object(context)) = fields.get_mut("securityContext") {
        context.extend(moved.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    spec
}

// === impl Printer ===

impl Printer {
    fn value(&mut self, ty: &str, value: Option<&Value>) {
        let value = value.filter(|value| !value.is_null());
        if let Some(inner) = ty.strip_prefix('*') {
            return if value.is_none() {
                self.out.push_str("null")
            } else {
                self.value(inner, value)
            };
        }
        if let Some(item) = ty.strip_prefix("[]") {
            return match value.and_then(Value::as_array) {
                None => self.out.push_str("null"),
                Some(items) => {
                    let each = items.iter().map(|value| (None, item, Some(value))).collect();
                    self.block(['[', ']'], each);
                }
            };
        }
        if let Some(item) = ty.strip_prefix("{}") {
            return match value.and_then(Value::as_object) {
                None => self.out.push_str("null"),
                Some(entries) => {
                    let entries = entries.iter();
                    let each = entries.map(|(key, value)| (Some(key.as_str()), item, Some(value)));
                    self.block(['{', '}'], each.collect());
                }
            };
        }
        if let Some(name) = ty.strip_prefix('#') {
            return self.fields(name, value);
        }
        match (value, ty) {
            (Some(value), _) => self.scalar(value),
            (None, "bool") => self.out.push_str("false"),
            (None, "string") => self.out.push_str("\"\""),
            (None, "quantity") => self.out.push_str("\"0\""),
            (None, "time" | "raw" | "bytes") => self.out.push_str("null"),
            (None, _) => self.out.push('0'),
        }
    }

    fn scalar(&mut self, value: &Value) {
        let text = value.to_string();
        self.out.push_str(
            &text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
        );
    }

    fn fields(&mut self, name: &str, value: Option<&Value>) {
        let moved;
        let value = match (name, value) {
            ("core.PodSpec", Some(spec)) => {
                moved = pod_spec(spec);
                Some(&moved)
            }
            (_, value) => value,
        };
        let known = value.and_then(Value::as_object);
        let mut each = Vec::new();
        for (field, flag, ty) in STRUCTS.get(name).into_iter().flatten() {
            let found = known.and_then(|known| {
                known.iter().find(|(key, _)| key.eq_ignore_ascii_case(field)).map(|(_, v)| v)
            });
            if *flag == "-" || found.is_some() || (*flag == "o" && ty.starts_with('#')) {
                each.push((Some(*field), *ty, found));
            }
        }
        self.block(['{', '}'], each);
    }

    fn block(&mut self, brackets: [char; 2], each: Vec<(Option<&str>, &str, Option<&Value>)>) {
        self.out.push(brackets[0]);
        let filled = !each.is_empty();
        self.depth += 1;
        for (place, (key, ty, value)) in each.into_iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            self.line();
            if let Some(key) = key {
                self.scalar(&Value::from(key));
                self.out.push_str(if self.pretty { ": " } else { ":" });
            }
            self.value(ty, value);
        }
        self.depth -= 1;
        if filled {
            self.line();
        }
        self.out.push(brackets[1]);
    }

    fn line(&mut self) {
        if self.pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', self.depth));
        }
    }
}
