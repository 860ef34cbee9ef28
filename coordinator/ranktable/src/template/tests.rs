use super::*;

fn config_map(data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigMap { name: "t".into(), data, ..ConfigMap::default() }
}

#[test]
fn what_is_not_said_has_a_default() {
    let read = TableTemplate::read(&config_map(&[(TABLE, "x")]), None).unwrap();
    assert_eq!(
        (read.level, read.order, read.stability),
        (Level::Role, Order::Seed, Stability::Recount)
    );
    assert_eq!(read.mount_path, "/etc/ascend/ranktable");
    assert_eq!(read.filename, "ranktable.json");
}

#[test]
fn every_key_is_read() {
    let read = config_map(&[
        (TABLE, "x"),
        ("inference-engine", "mindie"),
        ("ranktable-level", "group"),
        ("rank-order", "numeric\n"),
        ("rank-stability", "keep"),
        ("mount-path", "/a/b"),
        ("filename", "hosts"),
        (PARSER_REFERENCE, "mine"),
    ]);
    assert_eq!(read.parser_name(), "mine");
    let parser = config_map(&[(PARSER, "y")]);
    let read = TableTemplate::read(&read, Some(&parser)).unwrap();
    assert_eq!(
        (read.level, read.order, read.stability),
        (Level::Group, Order::Numeric, Stability::Keep)
    );
    assert_eq!(
        (read.mount_path.as_str(), read.filename.as_str(), read.engine.as_str()),
        ("/a/b", "hosts", "mindie")
    );
}

#[test]
fn an_error_names_the_config_map_and_the_key() {
    type Data<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Data<'_>, &str, &str); 8] = [
        (&[], "ConfigMap t has no key ranktable-template", "template-key-missing"),
        (&[(TABLE, " ")], "ConfigMap t has no key ranktable-template", "template-key-missing"),
        (
            &[(TABLE, "x"), ("rank-order", "best")],
            "ConfigMap t, key rank-order: \"best\"",
            "template-key-invalid",
        ),
        (
            &[(TABLE, "x"), ("ranktable-level", "pod")],
            "ConfigMap t, key ranktable-level",
            "template-key-invalid",
        ),
        (
            &[(TABLE, "x"), ("filename", "../x")],
            "ConfigMap t, key filename",
            "template-key-invalid",
        ),
        (
            &[(TABLE, "x"), ("mount-path", "/a/../b")],
            "ConfigMap t, key mount-path",
            "template-key-invalid",
        ),
        (&[(TABLE, "x"), (PARSER_REFERENCE, "p")], "there is no ConfigMap p", "parser-missing"),
        (
            &[(TABLE, "\n{{ .A")],
            "ConfigMap t, key ranktable-template: template: ranktable-template:2",
            "template-malformed",
        ),
    ];
    for (data, message, reason) in cases {
        let error = TableTemplate::read(&config_map(data), None).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.reason(), reason);
    }
}

#[test]
fn a_template_that_does_not_parse_can_wait_for_its_use() {
    let read = TableTemplate::read_unverified(&config_map(&[(TABLE, "{{")]), None).unwrap();
    assert!(read.table.get().is_err());
    assert!(read.parser.get().is_ok());
}

#[test]
fn a_config_map_is_read_from_yaml_and_from_json() {
    let yaml = ConfigMap::read("metadata:\n  name: a\ndata:\n  k: |\n    {{ x }}\n").unwrap();
    let json = ConfigMap::read(r#"{"metadata":{"name":"a"},"data":{"k":"{{ x }}\n"}}"#).unwrap();
    assert_eq!(yaml, json);
    assert!(ConfigMap::read("a: [").is_err());
}
