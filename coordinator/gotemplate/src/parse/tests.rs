use crate::{Class, Functions, Template};

fn refusal(source: &str) -> String {
    let error = Template::parse("t", source, &Functions::core()).expect_err(source);
    assert_eq!(error.class, Class::Parse, "{source}");
    error.to_string()
}

#[test]
fn a_malformed_source_is_refused_with_its_line() {
    for (source, expected) in [
        ("{{}}", "template: t:1: missing value for command"),
        ("\n\n{{nosuch}}", "template: t:3: function \"nosuch\" not defined"),
        ("{{$x}}", "template: t:1: undefined variable \"$x\""),
        ("{{if}}{{end}}", "template: t:1: missing value for if"),
        ("{{if .a}}", "template: t:1: unexpected EOF"),
        ("{{define \"a\"}}", "template: t:1: unexpected EOF"),
        ("{{end}}", "template: t:1: unexpected {{end}}"),
        ("{{else}}", "template: t:1: unexpected {{else}}"),
        ("{{define \"a\"}}{{else}}{{end}}", "template: t:1: unexpected {{else}} in define clause"),
        ("{{block \"a\" .}}{{else}}{{end}}", "template: t:1: unexpected {{else}} in block clause"),
        ("{{if .a}}{{else}}{{else}}{{end}}", "template: t:1: expected end; found {{else}}"),
        ("{{range .a}}{{else if .b}}{{end}}", "template: t:1: unexpected <if> in input"),
        ("{{if .a}}{{else with .b}}{{end}}", "template: t:1: unexpected <with> in input"),
        ("{{break}}", "template: t:1: {{break}} outside {{range}}"),
        (
            "{{range .a}}{{else}}{{continue}}{{end}}",
            "template: t:1: {{continue}} outside {{range}}",
        ),
        (
            "{{range .a}}{{block \"b\" .}}{{break}}{{end}}{{end}}",
            "template: t:1: {{break}} outside {{range}}",
        ),
        ("{{range $a, $b, $c := .x}}{{end}}", "template: t:1: too many declarations in range"),
        ("{{$a, $b := .x}}", "template: t:1: too many declarations in command"),
        ("{{range $a, .x}}{{end}}", "template: t:1: range can only initialize variables"),
        ("{{.a | 1}}", "template: t:1: non executable command in pipeline stage 2"),
        ("{{1.a}}", "template: t:1: bad number syntax: \"1.a\""),
        ("{{\"a\".b}}", "template: t:1: unexpected . after term \"\\\"a\\\"\""),
        ("{{.a.}}", "template: t:1: unexpected <.> in operand"),
        ("{{template .a}}", "template: t:1: unexpected \".a\" in template clause"),
        (
            "{{if .a}}{{define \"b\"}}{{end}}{{end}}",
            "template: t:1: unexpected <define> in command",
        ),
        (
            "{{define \"a\"}}x{{end}}{{define \"a\"}}y{{end}}",
            "template: t:1: template: multiple definition of template \"a\"",
        ),
        ("{{.a\n\n\"b", "template: t:3: unterminated quoted string in action started at t:1"),
        ("{{.a\n", "template: t:2: unclosed action started at t:1"),
        ("{{a}}{{b}}", "template: t:1: function \"a\" not defined"),
    ] {
        assert_eq!(refusal(source), expected, "{source}");
    }
}

#[test]
fn deep_parentheses_are_refused_and_deep_blocks_are_not() {
    let deep = format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(refusal(&deep), "template: t:1: max expression depth exceeded");
    let blocks = format!("{}x{}", "{{if true}}".repeat(10_000), "{{end}}".repeat(10_000));
    let template = Template::parse("t", &blocks, &Functions::core()).expect("blocks need no stack");
    assert_eq!(template.render(&0i64), Ok("x".to_owned()));
    let chain =
        format!("{{{{if false}}}}{}y{{{{end}}}}", "{{else if false}}".repeat(10_000) + "{{else}}");
    let template =
        Template::parse("t", &chain, &Functions::core()).expect("a chain needs no stack");
    assert_eq!(template.render(&0i64), Ok("y".to_owned()));
}

#[test]
fn a_source_over_the_limit_is_refused() {
    let limits = crate::Limits { source: 10, ..Default::default() };
    let error = Template::parse_within("t", "01234567890", &Functions::core(), limits)
        .expect_err("too long");
    assert_eq!(error.message, "source is longer than 10 bytes");
}

#[test]
fn a_blank_definition_gives_way_to_another() {
    let source = "{{define \"a\"}} {{end}}{{define \"a\"}}A{{end}}{{define \"a\"}}\n{{end}}{{template \"a\"}}";
    let template = Template::parse("t", source, &Functions::core()).expect("one has content");
    assert_eq!(template.render(&0i64), Ok("A".to_owned()));
    assert_eq!(template.definitions().collect::<Vec<_>>(), ["a", "a", "t"]);
}
