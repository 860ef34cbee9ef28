//! Whatever comes in, something comes out: no panic, no endless run, no output beyond its bound.

use crate::{Class, Functions, Limits, Numbers, Template, Value};
use proptest::prelude::*;

fn limits() -> Limits {
    Limits { output: 1 << 16, steps: 20_000, work: 1 << 20, depth: 100, ..Limits::default() }
}

/// Parses and executes; an error is as good as an output.
fn survive(source: &str) {
    let data = serde_json::json!({
        "s": "text", "n": 3, "f": 2.5, "nil": null, "l": ["a", 1, null, [2]], "m": {"a": 1, "b": {"c": "d"}},
    });
    let Ok(template) = Template::parse_within("t", source, &Functions::standard(), limits()) else {
        return;
    };
    for numbers in [Numbers::Floats, Numbers::Typed] {
        let mut out = Vec::new();
        let result = template.execute(&Value::from_json(&data, numbers), &mut out);
        assert!(out.len() <= 1 << 16, "{} bytes", out.len());
        if let Err(error) = result {
            assert_ne!(error.class, Class::Parse);
            assert!(error.line >= 1);
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Pieces that templates are made of.
fn piece() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "{{",
        "}}",
        "{{- ",
        " -}}",
        "{{/*",
        "*/}}",
        "(",
        ")",
        "|",
        ":=",
        "=",
        ",",
        " ",
        "\n",
        ".",
        ".s",
        ".l",
        ".m.b.c",
        ".nil.x",
        "$",
        "$x",
        "$y",
        "if ",
        "else ",
        "end",
        "range ",
        "with ",
        "define ",
        "template ",
        "block ",
        "break",
        "continue",
        "nil",
        "true",
        "\"a\"",
        "`b`",
        "'c'",
        "1",
        "-2.5",
        "0x1p9",
        "1i",
        "9999999999",
        "{{end}}",
        "{{else}}",
        "{{if .s}}",
        "{{range .l}}",
        "{{range $x, $y := .m}}",
        "{{with .m}}",
        "{{define \"a\"}}",
        "{{template \"a\" .}}",
        "{{template \"t\" .}}",
        "{{block \"b\" .}}",
        "{{$x := .l}}",
        "{{$x = list $x $x}}",
        "{{range 99999}}",
        "{{$x}}",
        "{{break}}",
        "{{continue}}",
        "printf ",
        "\"%[3]*.[2]*[1]f|%#+-0 99999q\" ",
        "print ",
        "index ",
        "slice ",
        "len ",
        "eq ",
        "lt ",
        "and ",
        "or ",
        "quote ",
        "toJson ",
        "fromJson ",
        "repeat ",
        "until ",
        "dict ",
        "set ",
        "merge ",
        "splitList ",
        "replace ",
        "uniq ",
        "untilStep ",
        "seq ",
        "indent ",
        "div ",
        "round ",
        "call ",
        "js ",
    ]);
    prop_oneof![9 => known.prop_map(str::to_owned), 1 => "\\PC{0,4}"]
}

fn function() -> impl Strategy<Value = String> {
    let names: Vec<String> = Functions::standard().names().map(str::to_owned).collect();
    prop::sample::select(names)
}

fn argument() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        ".s",
        ".n",
        ".f",
        ".nil",
        ".l",
        ".m",
        "$",
        "nil",
        "0",
        "-1",
        "3",
        "1000000",
        "9223372036854775807",
        "-9223372036854775808",
        "2.5",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"%d%s%v\"",
        "\"\\xff\"",
        "true",
        "(list 1 .l)",
        "(dict \"a\" 1)",
        "(list .l .l)",
        "(until 9)",
        "1i",
        "'x'",
        "`{\"a\":[1]}`",
        "(printf \"%9d\" 1)",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_text_parses_or_is_refused(source in "\\PC{0,60}|[{}\\-\"`'.$|()a-z0-9 \\n]{0,60}") {
        survive(&source);
    }

    #[test]
    fn any_row_of_pieces_ends(pieces in prop::collection::vec(piece(), 0..25)) {
        survive(&pieces.concat());
    }

    #[test]
    fn any_function_takes_any_arguments(
        name in function(),
        arguments in prop::collection::vec(argument(), 0..5),
        piped in prop::option::of(argument()),
    ) {
        let piped = piped.map(|piped| format!("{piped} | ")).unwrap_or_default();
        survive(&format!("{{{{$x := {piped}{name} {}}}}}{{{{$x}}}}{{{{printf \"%#v\" $x}}}}", arguments.join(" ")));
    }

    #[test]
    fn any_format_prints_within_bounds(format in "[%a-zA-Z0-9\\[\\]*.+# -]{0,20}", first in argument(), second in argument()) {
        survive(&format!("{{{{printf `{format}` {first} {second}}}}}"));
    }

    #[test]
    fn any_json_is_read_or_refused(text in "[\\[\\]{}\",:0-9a-z\\\\. -]{0,40}") {
        let template = Template::parse("t", "{{fromJson . | toJson}}", &Functions::core()).expect("well-formed");
        let ours = template.render(text.as_str());
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        // Half a surrogate and a number out of range are read differently; neither fits the alphabet often.
        if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
            let again: serde_json::Value = serde_json::from_str(ours).expect("what was written is JSON");
            prop_assert_eq!(floats(&again), floats(theirs));
        } else if !text.contains("\\u") && !text.contains('e') {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text);
        }
    }
}

/// All numbers as floats, as both sides see them.
fn floats(json: &serde_json::Value) -> serde_json::Value {
    match json {
        serde_json::Value::Number(number) => number.as_f64().into(),
        serde_json::Value::Array(items) => items.iter().map(floats).collect(),
        serde_json::Value::Object(entries) => {
            entries.iter().map(|(key, item)| (key.clone(), floats(item))).collect()
        }
        other => other.clone(),
    }
}
