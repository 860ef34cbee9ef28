//! Executions: whatever the template and its data are, a run ends within its bounds.
//! The input is JSON, a newline, and the template; without JSON the text itself is the data.
#![no_main]

use gotemplate::{Class, Functions, Limits, Numbers, Template, Value};
use libfuzzer_sys::fuzz_target;

const OUTPUT: usize = 1 << 14;

fuzz_target!(|input: &str| {
    let (json, source) = input.split_once('\n').unwrap_or(("", input));
    let limits = Limits { output: OUTPUT, steps: 5_000, work: 1 << 18, depth: 100, ..Limits::default() };
    let Ok(template) = Template::parse_within("t", source, &Functions::standard(), limits) else { return };
    let mut out = Vec::new();
    let result = match Value::read_json(json.as_bytes(), Numbers::Typed) {
        Ok(data) => template.execute(&data, &mut out),
        Err(_) => template.execute(json, &mut out),
    };
    assert!(out.len() <= OUTPUT);
    if let Err(error) = result {
        assert_ne!(error.class, Class::Parse);
        assert!(!error.to_string().is_empty());
    }
});
