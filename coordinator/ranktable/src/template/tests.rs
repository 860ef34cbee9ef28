use super::*;

fn config_map(data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigMap { name: "t".into(), data, ..ConfigMap::default() }
}

#[test]
fn what_is_not_said_has_a_default() {
    let read = TableTemplate::read(&config_map(&[(TABLE, "x")]), None).unwrap();
    assert_eq!((read.level, read.order, read.stability), (Level::Role, None, Stability::Recount));
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
        (Level::Group, Some(Order::Numeric), Stability::Keep)
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

#[test]
fn a_path_that_a_shell_would_read_otherwise_is_refused() {
    let read = |key: &str, value: &str| {
        TableTemplate::read(&config_map(&[(TABLE, "x"), (key, value)]), None)
    };
    for path in ["/a", "/a/", "/etc/ascend/ranktable", "/a-b_c.d/..e", "//a/./b"] {
        assert_eq!(read("mount-path", path).unwrap().mount_path, path);
    }
    let long = format!("/{}", "a".repeat(1024));
    for path in [
        "a", "/", "//", "/.", "/a/..", "/a\"b", "/a'b", "/$HOME", "/a`b`", "/a b", "/a\nb",
        "/a\\b", "/a:b", "/a;b", "/ä", &long,
    ] {
        let error = read("mount-path", path).unwrap_err();
        assert_eq!(error.reason(), "template-key-invalid", "{path:?}");
    }
    for file in ["a", "ranktable.json", "A_b-1.x", "-"] {
        assert_eq!(read("filename", file).unwrap().filename, file);
    }
    let long = "a".repeat(129);
    for file in [".", "..", ".hidden", "x.generation", "a/b", "a\"", "$a", "a b", "ä", &long] {
        let error = read("filename", file).unwrap_err();
        assert_eq!(error.reason(), "template-key-invalid", "{file:?}");
    }
}

#[test]
fn a_template_that_shows_addresses_of_pods_says_so() {
    let needs = |text: &str| {
        TableTemplate::read(&config_map(&[(TABLE, text)]), None).unwrap().needs_addresses()
    };
    assert!(needs("{{ range .Servers }}{{ .ContainerIp }}{{ end }}"));
    assert!(needs("{{/* ContainerIp */}}{{ toJson . }}"));
    assert!(needs("{{ range .Servers }}{{ .HostIp }}{{ end }}"));
    assert!(!needs("{{ range .Servers }}{{ .ServerId }}{{ end }}"));
}

#[test]
fn a_digest_changes_with_everything_that_decides_a_table_and_with_nothing_else() {
    let base = [(TABLE, "x"), (PARSER_REFERENCE, "p"), ("mount-path", "/a"), ("filename", "b")];
    let digest = |more: &[(&str, &str)], parser: &str, name: &str| {
        let template = ConfigMap { name: name.into(), ..config_map(&[&base[..], more].concat()) };
        let parser = config_map(&[(PARSER, parser)]);
        TableTemplate::read(&template, Some(&parser)).unwrap().digest()
    };
    let plain = digest(&[], "y", "t");
    // Written down, so that an unchanged template is the same one to the next version.
    assert_eq!(
        plain.to_string(),
        "fbe5db7f123aa60d7103d8002a1d9d4311d1ed5a17ee8903e028f7dedc2c734a"
    );
    assert_eq!(digest(&[("inference-engine", "mindie")], "y", "other"), plain);
    assert_eq!(digest(&[("rank-stability", "recount")], "y", "t"), plain);
    let mut seen = std::collections::BTreeSet::from([plain]);
    for more in [
        (TABLE, "x "),
        ("rank-order", "seed"),
        ("rank-order", "numeric"),
        ("rank-order", "pod"),
        ("rank-order", "topology"),
        ("rank-stability", "keep"),
        ("ranktable-level", "group"),
        ("mount-path", "/ab"),
        ("filename", "c"),
    ] {
        assert!(seen.insert(digest(&[more], "y", "t")), "{more:?}");
    }
    assert!(seen.insert(digest(&[], "z", "t")));
    // What moves from one part to the next is another template.
    assert_ne!(digest(&[(TABLE, "bx")], "a", "t"), digest(&[(TABLE, "x")], "ab", "t"));
}
