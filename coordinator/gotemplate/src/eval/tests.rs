use serde_json::json;

use crate::{Class, Error, Functions, Limits, MissingKey, Numbers, Template, Value, structure};

struct Host {
    name: String,
    ports: Vec<i64>,
}

structure!(Host as "main.Host" { Name: name, Ports: ports });

fn render_as(source: &str, missing_key: MissingKey) -> Result<String, Error> {
    let data = json!({
        "s": "text", "n": 3, "zero": 0, "f": 2.5, "yes": true, "nil": null, "l": ["a", "b"], "none": [],
        "m": {"b": 2, "a": 1}, "deep": {"x": {"y": "z"}}, "mixed": [1, null, {"k": "v"}], "nilm": {"a": null},
    });
    let template = Template::parse("t", source, &Functions::core())?.missing_key(missing_key);
    template.render(&Value::from_json(&data, Numbers::Typed))
}

fn render(source: &str) -> Result<String, Error> {
    render_as(source, MissingKey::Default)
}

#[test]
fn what_is_there_and_what_is_not() {
    for (source, expected) in [
        ("{{.s}} {{.n}} {{.f}} {{.yes}}", "text 3 2.5 true"),
        ("{{.gone}} {{.gone.further}}", "<no value> <no value>"),
        ("{{.nil}} {{print .nil}} {{html .nil}}", "<no value> <nil> &lt;no value&gt;"),
        ("{{$x := .nil}}{{$x.further}}", "<no value>"),
        ("{{(index .nilm \"a\").further}}", "<no value>"),
        ("{{.deep.x.y}} {{(.deep).x.y}}", "z z"),
        ("{{if .zero}}a{{else if .none}}b{{else if .gone}}c{{else}}d{{end}}", "d"),
        ("{{with .gone}}a{{else with .s}}{{.}}{{else}}c{{end}}", "text"),
        ("{{with $x := .l}}{{len $x}}{{end}}", "2"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn loops_go_over_lists_maps_and_numbers() {
    for (source, expected) in [
        ("{{range .l}}{{.}}{{end}}", "ab"),
        ("{{range $x := .l}}{{$x}}{{$.n}}{{end}}", "a3b3"),
        ("{{range $i, $x := .l}}{{$i}}{{$x}}{{end}}", "0a1b"),
        ("{{range $k, $v := .m}}{{$k}}{{$v}}{{end}}", "a1b2"),
        ("{{range 3}}{{.}}{{end}}{{range .n}}{{.}}{{end}}", "012012"),
        ("{{range .none}}x{{else}}{{.s}}{{end}}", "text"),
        ("{{range $x := .none}}x{{else}}{{$x}}{{end}}", "[]"),
        ("{{range -2}}x{{else}}none{{end}}", "none"),
        ("{{$x := 9}}{{range $x = .l}}{{end}}{{$x}}", "b"),
        ("{{range $i, $x := .l}}{{if $i}}{{break}}{{end}}{{$x}}{{end}}!", "a!"),
        (
            "{{range .l}}{{with .}}{{if eq . \"a\"}}{{continue}}{{end}}{{.}}{{end}}{{.}}{{end}}",
            "bb",
        ),
        ("{{range .l}}{{range $.l}}{{break}}{{end}}{{.}}{{end}}", "ab"),
        ("{{range .mixed}}{{.}};{{end}}", "1;<no value>;map[k:v];"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn variables_live_as_long_as_their_block() {
    for (source, expected) in [
        ("{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "21"),
        ("{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}", "2"),
        ("{{$x := 1}}{{$x := print $x $x}}{{$x}}", "1 1"),
        ("{{range .l}}{{$x := .}}{{$x}}{{end}}", "ab"),
        ("{{print ($x := 5) $x}}", "5 5"),
        ("{{$ := 7}}{{$}}", "7"),
        ("{{define \"a\"}}{{$}}{{end}}{{$x := 1}}{{template \"a\" $x}}{{$x}}", "11"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
    for source in [
        "{{if true}}{{$x := 1}}{{else}}{{end}}{{$x = 2}}",
        "{{if false}}{{$x := 1}}{{else}}{{$x}}{{end}}",
    ] {
        assert_eq!(
            render(source).map_err(|error| error.message),
            Err("undefined variable: $x".to_owned()),
            "{source}"
        );
    }
}

#[test]
fn logic_stops_at_the_argument_that_decides() {
    for (source, expected) in [
        ("{{or .yes (index .l 99)}}", "true"),
        ("{{and .zero (index .l 99)}}", "0"),
        ("{{or .zero \"\" .s}}", "text"),
        ("{{.s | or .zero}} {{.s | and .zero}} {{.s | and}}", "text 0 text"),
        ("{{not .gone}} {{not .l}}", "true false"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn errors_name_the_place_and_the_expression() {
    for (source, expected) in [
        (
            "\n {{.s.x}}",
            "template: t:2:5: executing \"t\" at <.s.x>: can't evaluate field x in type interface {}",
        ),
        (
            "{{.nil.x}}",
            "template: t:1:6: executing \"t\" at <.nil.x>: nil pointer evaluating interface {}.x",
        ),
        (
            "{{index .l   9}}",
            "template: t:1:2: executing \"t\" at <index .l 9>: error calling index: index out of range: 9",
        ),
        (
            "{{len}}",
            "template: t:1:2: executing \"t\" at <len>: wrong number of args for len: want 1 got 0",
        ),
        (
            "{{1 2}}",
            "template: t:1:2: executing \"t\" at <1>: can't give argument to non-function 1",
        ),
        ("{{nil}}", "template: t:1:2: executing \"t\" at <nil>: nil is not a command"),
        (
            "{{range .s}}{{end}}",
            "template: t:1:8: executing \"t\" at <.s>: range can't iterate over text",
        ),
        (
            "{{range $i, $x := 3}}{{end}}",
            "template: t:1:18: executing \"t\" at <3>: can't use 3 to iterate over more than one variable",
        ),
        (
            "{{template \"no\"}}",
            "template: t:1:11: executing \"t\" at <{{template \"no\"}}>: template \"no\" not defined",
        ),
        (
            "{{define \"in\"}}{{lt .s 1}}{{end}}{{template \"in\" .}}",
            "template: t:1:17: executing \"in\" at <lt .s 1>: error calling lt: incompatible types for comparison: string and int",
        ),
        ("{{printf 5}}", "template: t:1:9: executing \"t\" at <5>: expected string; found 5"),
        (
            "{{fromJson .n}}",
            "template: t:1:11: executing \"t\" at <.n>: wrong type for value; expected string; got int",
        ),
        (
            "{{slice .s .zero}}",
            "template: t:1:2: executing \"t\" at <slice .s .zero>: error calling slice: cannot index slice/array with type interface {}",
        ),
    ] {
        let error = render(source).expect_err(source);
        assert_eq!((error.class, error.to_string().as_str()), (Class::Exec, expected), "{source}");
    }
}

#[test]
fn a_missing_key_is_what_the_template_says() {
    assert!(render_as("{{if .gone}}{{end}}", MissingKey::Error).is_err());
    assert!(render_as("{{index .m \"gone\"}}", MissingKey::Error).is_ok());
    assert_eq!(render_as("{{.gone}}", MissingKey::Zero).as_deref(), Ok("<no value>"));
    assert!(render_as("{{.gone.further}}", MissingKey::Zero).is_err());
}

#[test]
fn a_struct_has_its_fields_and_no_others() {
    let host = Host { name: "h".to_owned(), ports: vec![1, 2] };
    let run = |source: &str| {
        let template = Template::parse("t", source, &Functions::core()).expect("well-formed");
        template.render(&host).map_err(|error| error.message)
    };
    assert_eq!(
        run("{{.Name}} {{.}} {{printf \"%+v %T\" . .Ports}}").as_deref(),
        Ok("h {h [1 2]} {Name:h Ports:[1 2]} []int")
    );
    assert_eq!(run("{{toJson .}}").as_deref(), Ok(r#"{"Name":"h","Ports":[1,2]}"#));
    assert_eq!(run("{{.name}}"), Err("can't evaluate field name in type main.Host".to_owned()));
    assert_eq!(
        run("{{.Name 1}}"),
        Err("Name has arguments but cannot be invoked as function".to_owned())
    );
}

#[test]
fn what_was_written_before_an_error_can_be_had() {
    let template = Template::parse("t", "before {{index . 9}} after", &Functions::core())
        .expect("well-formed");
    let mut out = b"kept ".to_vec();
    assert!(template.execute(&vec![1i64], &mut out).is_err());
    assert_eq!(out, b"kept before ");
}

#[test]
fn every_bound_gives_an_error() {
    let small =
        Limits { output: 1000, steps: 10_000, work: 100_000, depth: 50, ..Default::default() };
    for (source, expected) in [
        ("{{range 100000}}{{end}}", "exceeded 10000 steps"),
        ("{{range 1000}}0123456789{{end}}", "exceeded the output limit of 1000 bytes"),
        ("{{printf \"%2000d\" 1}}", "exceeded the output limit of 1000 bytes"),
        ("{{$x := printf \"%2000d\" 1}}", "exceeded the output limit of 1000 bytes"),
        ("{{repeat 100000000 \"ab\"}}", "exceeded the output limit of 1000 bytes"),
        ("{{template \"t\"}}", "exceeded maximum template depth (50)"),
        ("{{until 1000000000}}", "exceeded the work limit of 100000 bytes"),
        (
            "{{$l := list}}{{range 2000}}{{$l = list $l}}{{end}}",
            "lists and maps are nested too deep",
        ),
        (
            "{{$l := list 1}}{{range 100}}{{$l = list $l $l}}{{end}}{{$l}}",
            "exceeded the output limit of 1000 bytes",
        ),
        (
            "{{$l := list 1}}{{range 100}}{{$l = list $l $l}}{{end}}{{has $l (list $l)}}{{has $l (list 1 (reverse $l))}}",
            "exceeded the work limit of 100000 bytes",
        ),
    ] {
        let template = Template::parse_within("t", source, &Functions::standard(), small.clone())
            .expect(source);
        let error = template.render(&0i64).expect_err(source);
        assert_eq!((error.class, error.message.as_str()), (Class::Limit, expected), "{source}");
    }
}

#[test]
fn templates_may_call_each_other_deep() {
    let source = "{{define \"down\"}}{{if .}}{{template \"down\" (slice . 1)}}{{else}}bottom{{end}}{{end}}{{template \"down\" .}}";
    let template = Template::parse("t", source, &Functions::core()).expect("well-formed");
    assert_eq!(template.render("x".repeat(900).as_str()).as_deref(), Ok("bottom"));
}

#[test]
fn one_of_the_definitions_can_be_executed() {
    let template = Template::parse("t", "{{define \"a\"}}<{{.}}>{{end}}", &Functions::core())
        .expect("well-formed");
    let mut out = Vec::new();
    assert_eq!(template.execute_definition("a", &5i64, &mut out), Ok(()));
    assert_eq!(out, b"<5>");
    assert!(template.execute_definition("b", &5i64, &mut out).is_err());
}

#[test]
fn the_deepest_values_and_expressions_fit_the_stack() {
    let build = "{{$l := list 1}}{{$d := dict \"k\" 1}}{{range 998}}{{$l = list $l}}{{$d = dict \"k\" $d}}{{end}}";
    for (rest, length) in [
        ("{{$l}}", 999 * 2 + 1),
        ("{{toJson $d}}", 999 * 6 + 1),
        ("{{printf \"%#v\" $l | len}}", 5),
        ("{{has $l (list $l)}}", 4),
        ("{{len (toPrettyJson (merge $d $d))}}", 7),
    ] {
        let template =
            Template::parse("t", &format!("{build}{rest}"), &Functions::standard()).expect(rest);
        assert_eq!(template.render(&0i64).map(|out| out.len()), Ok(length), "{rest}");
    }
    let parentheses = format!("{{{{index {}.{} nil}}}}", "(print ".repeat(200), ")".repeat(200));
    let template =
        Template::parse("t", &parentheses, &Functions::core()).expect("as deep as allowed");
    assert!(template.render("text").is_err_and(|error| error.to_string().len() > 1000));
}

#[test]
fn a_loop_cannot_read_long_things_for_hours() {
    let limits = Limits { work: 1 << 20, steps: 1_000_000, ..Default::default() };
    let keys: std::collections::BTreeMap<String, i64> =
        (0..10_000).map(|n| (n.to_string(), n)).collect();
    for (source, expected) in [
        (
            "{{$s := repeat 100000 \"ab\"}}{{range 9999}}{{if eq $s $s}}{{end}}{{end}}",
            "exceeded the work limit of 1048576 bytes",
        ),
        ("{{range 9999}}{{range $}}{{break}}{{end}}{{end}}", "exceeded 1000000 steps"),
        (
            "{{$l := until 9999}}{{range 9999}}{{if has 9998 $l}}{{end}}{{end}}",
            "exceeded the work limit of 1048576 bytes",
        ),
    ] {
        let template = Template::parse_within("t", source, &Functions::standard(), limits.clone())
            .expect(source);
        assert_eq!(
            template.render(&keys).map_err(|error| error.message),
            Err(expected.to_owned()),
            "{source}"
        );
    }
}
