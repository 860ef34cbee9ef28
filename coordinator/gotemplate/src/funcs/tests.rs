use crate::{FunctionError, Functions, Param, Template, Value};

fn run(source: &str) -> Result<String, String> {
    let template =
        Template::parse("t", source, &Functions::standard()).map_err(|error| error.to_string())?;
    template.render("data").map_err(|error| error.message)
}

fn table(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(run(source).as_deref(), Ok(*expected), "{source}");
    }
}

#[test]
fn text_functions() {
    table(&[
        (
            "{{upper \"añß\"}} {{lower \"AÑ\"}} {{title \"two words\"}} {{untitle \"Two Words\"}}",
            "AÑß añ Two Words two words",
        ),
        (
            "[{{trim \" \\ta \"}}] [{{trimAll \"$-\" \"$-a-$\"}}] [{{trimPrefix \"a\" \"aab\"}}] [{{trimSuffix \"b\" \"abb\"}}]",
            "[a] [a] [ab] [ab]",
        ),
        ("[{{trim \"   \"}}] {{nospace \" a b\\n\"}}", "[] ab"),
        ("{{replace \"a\" \"bb\" \"banana\"}} {{replace \"\" \"-\" \"ab\"}}", "bbbnbbnbb -a-b-"),
        (
            "{{repeat 3 \"ab\"}} {{trunc 2 \"abc\"}} {{trunc -2 \"abc\"}} {{trunc 9 \"abc\"}}",
            "ababab ab bc abc",
        ),
        ("{{indent 2 \"a\\nb\"}}{{nindent 1 \"c\"}}", "  a\n  b\n c"),
        (
            "{{contains \"na\" \"banana\"}} {{hasPrefix \"b\" \"ab\"}} {{hasSuffix \"b\" \"ab\"}} {{contains \"\" \"\"}}",
            "true false true true",
        ),
        (
            "{{splitList \",\" \"a,b,\" | join \"|\"}} {{(split \"-\" \"a-b\")._1}} {{len (splitList \"\" \"añ\")}}",
            "a|b| b 2",
        ),
        ("{{squote 1 nil \"a\"}} {{cat \"a\" 1 nil 2.5}} {{toString 1.5}}", "'1' 'a' a 1 2.5 1.5"),
        (
            "{{default \"d\" \"\"}} {{default \"d\" \"x\"}} {{\"\" | default 5}} {{coalesce 0 \"\" \"x\"}} {{ternary 1 2 false}} {{empty 0}}",
            "d x 5 x 2 true",
        ),
        ("{{join \"-\" (list 1 nil \"a\")}} {{join \"-\" \"one\"}}", "1-a one"),
    ]);
    assert_eq!(run("{{fail \"no luck\"}}"), Err("error calling fail: no luck".to_owned()));
    assert_eq!(
        run("{{required \"need it\" \"\"}}"),
        Err("error calling required: need it".to_owned())
    );
    assert_eq!(
        run("{{repeat -1 \"a\"}}"),
        Err("error calling repeat: strings: negative Repeat count".to_owned())
    );
}

#[test]
fn list_functions() {
    table(&[
        (
            "{{list 1 \"a\" nil}} {{first (list 1 2)}} {{last (list 1 2)}} {{rest (list 1 2 3)}} {{initial (list 1 2 3)}}",
            "[1 a <nil>] 1 2 [2 3] [1 2]",
        ),
        ("{{first list}} {{rest list}} {{len (rest (list 1))}}", "<no value> <no value> 0"),
        (
            "{{append (list 1) 2}} {{prepend (list 1) 2}} {{concat (list 1) (list 2 3)}} {{reverse (list 1 2)}}",
            "[1 2] [2 1] [1 2 3] [2 1]",
        ),
        (
            "{{uniq (list 1 1.0 1 \"1\" (list 1) (list 1))}} {{compact (list 0 1 \"\" \"a\")}} {{without (list 1 2 3) 1 3}}",
            "[1 1 1 [1]] [1 a] [2]",
        ),
        (
            "{{has 2 (list 1 2)}} {{has (dict \"a\" 1) (list (dict \"a\" 1))}} {{has 1 nil}}",
            "true true false",
        ),
        (
            "{{sortAlpha (list \"b\" 10 \"a\" 9)}} {{toStrings (list 1 true)}}",
            "[10 9 a b] [1 true]",
        ),
        (
            "{{until 3}} {{until -2}} {{untilStep 1 6 2}} {{seq 3}} {{seq 2 4}} {{seq 5 -2 1}} {{range until 2}}{{.}}{{end}}",
            "[0 1 2] [0 -1] [1 3 5] 1 2 3 2 3 4 5 3 1 01",
        ),
        (
            "{{printf \"%T %T\" (list 1) (splitList \",\" \"a\")}} {{printf \"%T\" (until 1)}}",
            "[]interface {} []string []int",
        ),
    ]);
    assert_eq!(run("{{first 5}}"), Err("error calling first: cannot first on type int".to_owned()));
}

#[test]
fn dict_functions() {
    table(&[
        (
            "{{dict \"b\" 1 \"a\" 2}} {{dict \"odd\"}} {{(dict \"k\" \"v\").k}}",
            "map[a:2 b:1] map[odd:] v",
        ),
        (
            "{{$d := dict \"a\" 1}}{{$e := set $d \"b\" 2}}{{$d}} {{$e}} {{unset $e \"a\"}}",
            "map[a:1] map[a:1 b:2] map[b:2]",
        ),
        (
            "{{get (dict \"a\" 1) \"a\"}}{{get dict \"a\"}} {{hasKey (dict \"a\" nil) \"a\"}}",
            "1 true",
        ),
        ("{{keys (dict \"b\" 1 \"a\" 2)}} {{values (dict \"b\" 1 \"a\" 2)}}", "[a b] [2 1]"),
        (
            "{{pick (dict \"a\" 1 \"b\" 2) \"b\" \"c\"}} {{omit (dict \"a\" 1 \"b\" 2) \"b\"}} {{pluck \"a\" (dict \"a\" 1) dict (dict \"a\" 3)}}",
            "map[b:2] map[a:1] [1 3]",
        ),
        (
            "{{dig \"a\" \"b\" 0 (dict \"a\" (dict \"b\" 5))}} {{dig \"a\" \"c\" 0 (dict \"a\" (dict \"b\" 5))}}",
            "5 0",
        ),
        (
            "{{merge (dict \"a\" 1 \"s\" (dict \"x\" 1)) (dict \"a\" 2 \"b\" 3 \"s\" (dict \"x\" 2 \"y\" 2))}}",
            "map[a:1 b:3 s:map[x:1 y:2]]",
        ),
        ("{{mergeOverwrite (dict \"a\" 1) (dict \"a\" 2 \"b\" 3)}}", "map[a:2 b:3]"),
        (
            "{{toPrettyJson (dict \"a\" (list 1) \"b\" list)}}",
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}",
        ),
    ]);
    assert!(run("{{keys 5}}").is_err());
}

#[test]
fn math_functions() {
    table(&[
        (
            "{{add 1 2 3}} {{add}} {{add1 4}} {{sub 1 5}} {{mul 2 3 4}} {{div 7 2}} {{mod 7 4}}",
            "6 0 5 -4 24 3 3",
        ),
        (
            "{{add \"1\" 2.9 true}} {{max 1 5 3}} {{min 4 2}} {{int \"12\"}} {{int64 3.9}} {{float64 \"1.5\"}} {{atoi \"x\"}}",
            "4 5 2 12 3 1.5 0",
        ),
        (
            "{{floor 1.7}} {{ceil 1.2}} {{round 1.2345 2}} {{round -2.5 0}} {{addf 1.5 1}} {{divf 1 4}} {{maxf 1 2.5}}",
            "1 2 1.23 -3 2.5 0.25 2.5",
        ),
        (
            "{{typeOf 1.5}} {{kindOf (list)}} {{kindIs \"map\" dict}} {{typeIs \"int\" 1}} {{kindOf nil}}",
            "float64 slice true true invalid",
        ),
    ]);
    assert_eq!(
        run("{{div 1 0}}"),
        Err("error calling div: runtime error: integer divide by zero".to_owned())
    );
    assert_eq!(
        run("{{add 9223372036854775807 1}}"),
        Err("error calling add: integer overflow".to_owned())
    );
}

#[test]
fn json_functions() {
    table(&[
        (
            "{{toJson (list 1 1.5 1e21 1e-7 \"<&>\\u2028\\x7f\" nil true)}}",
            "[1,1.5,1e+21,1e-7,\"\\u003c\\u0026\\u003e\\u2028\u{7f}\",null,true]",
        ),
        ("{{toJson \"\\xff\\x01\"}}", "\"\\ufffd\\u0001\""),
        (
            "{{fromJson `{\"b\":[1,2.5,null],\"a\":\"\\ud83d\\ude00\\ud800x\",\"a\":\"last\"}`}}",
            "map[a:last b:[1 2.5 <nil>]]",
        ),
        (
            "{{fromJson \" \\\"\\\\ud83d\\\\ude00\\\\ud800x\\\" \"}} {{fromJson \"[]\"}} {{fromJson \"null\"}}",
            "😀\u{fffd}x [] <no value>",
        ),
        (
            "{{quote 1 nil \"a\\tb\" 2.5}} [{{quote nil}}] [{{quote}}]",
            "\"1\" \"a\\tb\" \"2.5\" [] []",
        ),
    ]);
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{1:2}", "invalid character '1' looking for beginning of object key string"),
        ("{\"a\" 2}", "invalid character '2' after object key"),
        ("{\"a\":2 3}", "invalid character '3' after object key:value pair"),
        ("1 2", "invalid character '2' after top-level value"),
        ("01", "invalid character '1' after top-level value"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("-", "invalid character ' ' in numeric literal"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("\"a\tb\"", "invalid character '\\t' in string literal"),
        ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
    ] {
        let template =
            Template::parse("t", "{{fromJson .}}", &Functions::core()).expect("well-formed");
        let message = template.render(text).expect_err(text).message;
        assert_eq!(message, format!("error calling fromJson: {expected}"), "{text}");
        let lenient = Template::parse("t", "{{fromJson .}}", &Functions::core().lenient())
            .expect("well-formed");
        assert_eq!(lenient.render(text).as_deref(), Ok("<no value>"), "{text}");
    }
    let deep = "[".repeat(1_000_000);
    let template = Template::parse("t", "{{fromJson .}}", &Functions::core()).expect("well-formed");
    assert_eq!(
        template.render(deep.as_str()).expect_err("deep").message,
        "error calling fromJson: exceeded max depth"
    );
}

#[test]
fn comparisons_need_one_kind() {
    table(&[
        (
            "{{eq 1 2 1}} {{eq \"a\" \"b\"}} {{eq nil nil}} {{eq 1 nil}} {{ne true false}}",
            "true false true false true",
        ),
        (
            "{{lt 1 2}} {{le \"b\" \"a\"}} {{gt 1.5 1.25}} {{ge 2 2}} {{eq (index \"a\" 0) 97}} {{lt -1 (index \"a\" 0)}}",
            "true false true true true true",
        ),
    ]);
    for source in [
        "{{eq 1 1.0}}",
        "{{eq 1 \"1\"}}",
        "{{lt true false}}",
        "{{lt nil 1}}",
        "{{eq 1}}",
        "{{eq (list) (list)}}",
        "{{eq (list) (dict)}}",
    ] {
        assert!(run(source).is_err(), "{source}");
    }
}

#[test]
fn escaping_for_other_languages() {
    table(&[
        ("{{html \"<a href='x'>&\\\"\\x00\"}}", "&lt;a href=&#39;x&#39;&gt;&amp;&#34;\u{fffd}"),
        (
            "{{js \"'\\\"\\\\<>&=\\n\\u2028é\"}}",
            "\\'\\\"\\\\\\u003C\\u003E\\u0026\\u003D\\u000A\\u2028é",
        ),
        ("{{urlquery \"a b&ü-_.~\"}} {{urlquery 1 2}}", "a+b%26%C3%BC-_.~ 1+2"),
    ]);
}

#[test]
fn a_caller_adds_functions() {
    let mut functions = Functions::core();
    functions.add("double", &[Param::Int], None, |arguments, budget| {
        budget.charge(1)?;
        let number = arguments.first().and_then(Value::as_int).unwrap_or(0);
        number.checked_mul(2).map(Value::Int).ok_or_else(|| FunctionError::call("too large"))
    });
    let template =
        Template::parse("t", "{{double 21}} {{3.0 | double}}", &functions).expect("known");
    assert_eq!(
        template.render(&0i64).map_err(|error| error.message),
        Err("wrong type for value; expected int; got float64".to_owned())
    );
    let template = Template::parse("t", "{{double 21}} {{double 3.0}}", &functions).expect("known");
    assert_eq!(template.render(&0i64).as_deref(), Ok("42 6"));
    assert!(functions.names().any(|name| name == "double"));
}
