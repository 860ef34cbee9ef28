use proptest::prelude::*;

use super::*;
use crate::template::ConfigMap;
use muster_proto::annotation::AnnotatedDevice;

fn template(parser: Option<&str>) -> TableTemplate {
    let data = |key: &str, text: &str| ConfigMap {
        name: "t".into(),
        data: [(key.to_owned(), text.to_owned())].into(),
        ..ConfigMap::default()
    };
    let parser = parser.map(|text| data("parser-template", text));
    TableTemplate::read(&data("ranktable-template", "x"), parser.as_ref()).unwrap()
}

fn parse(parser: &str, annotation: &str) -> Result<PodData, ParseError> {
    template(Some(parser)).parse(annotation)
}

#[test]
fn the_standard_parser_reads_the_seeds_annotation() {
    let text = r#"{"pod_name":"w-0","server_id":"10.0.0.1","devices":[{"device_id":"0","device_ip":"10.20.0.2"},{"device_id":1}]}"#;
    let pod = template(None).parse(text).unwrap();
    assert_eq!((pod.pod_name.as_str(), pod.server_id.as_str()), ("w-0", "10.0.0.1"));
    let devices: Vec<_> = pod
        .devices
        .iter()
        .map(|device| (device.device_id.as_str(), device.device_ip.as_str()))
        .collect();
    assert_eq!(devices, [("0", "10.20.0.2"), ("1", "")]);
}

#[test]
fn scalars_become_text_and_keys_are_found_in_any_case() {
    let pod = parse("PodName: true\nSERVERID: 12\ndevices:\n- {deviceid: 0x10, deviceIP: 1.50, deviceIp2: [1, a]}\n", "")
        .unwrap();
    assert_eq!((pod.pod_name.as_str(), pod.server_id.as_str()), ("true", "12"));
    let device = &pod.devices[0];
    assert_eq!((device.device_id.as_str(), device.device_ip.as_str()), ("16", "1.5"));
    let more = device.more.as_deref().unwrap();
    assert_eq!(more.extras["deviceIp2"].0, serde_json::json!([1, "a"]));
}

#[test]
fn nothing_is_an_empty_pod() {
    for output in [
        "{{/* */}}",
        "\n\n{{/* */}}",
        "null",
        "{}",
        "devices:\n",
        "podName: \nserverId:\ndevices: []",
    ] {
        assert_eq!(
            parse(output, "x").map_err(|error| error.to_string()),
            Ok(PodData::default()),
            "{output:?}"
        );
    }
}

#[test]
fn what_is_no_pod_is_refused_with_its_stage() {
    let cases = [
        ("a: [", "parser-output-yaml", "parser-output-malformed"),
        ("just text", "parser-output-yaml", "parser-output-malformed"),
        ("devices: {a: 1}", "parser-output-yaml", "parser-output-malformed"),
        ("devices: [1]", "parser-output-yaml", "parser-output-malformed"),
        ("serverId: [a]", "parser-output-yaml", "parser-output-malformed"),
        ("serverId: a\nserverId: b", "parser-output-yaml", "parser-output-malformed"),
        ("serverId: \"a\"\nserverId: \"b\"", "parser-output-yaml", "parser-output-malformed"),
        ("podName: &a x\nserverId: *a", "parser-output-yaml", "parser-output-malformed"),
        ("podName: !mine x", "parser-output-yaml", "parser-output-malformed"),
        ("{{ fromJson . }}", "pod-parser-template", "template-failed"),
        ("{{ range 300000 }}x{{ end }}", "pod-parser-template", "template-limit"),
    ];
    for (parser, stage, reason) in cases {
        let error = parse(parser, "nope").unwrap_err();
        assert_eq!((error.stage(), error.reason()), (stage, reason), "{parser}: {error}");
    }
}

#[test]
fn sizes_have_bounds() {
    let long = "x".repeat(LARGEST + 1);
    assert_eq!(template(None).parse(&long), Err(ParseError::TooLarge(LARGEST + 1)));
    let many = "{{ \"devices:\\n\" }}{{ range 1025 }}- deviceId: \"{{ . }}\"\n{{ end }}";
    assert_eq!(parse(many, ""), Err(ParseError::TooMany(1025)));
}

#[test]
fn the_plain_form_is_read_without_the_parser() {
    let text = "podName: \"a\"\nserverId: \"s\"\nsuperPodId: 7\nrackId: null\ndevices:\n  - deviceId: \"0\"\n    deviceIp: \"1.1.1.1\"\n  - deviceId: \"1\"\n    deviceIp: \n    superDeviceId: 167772160\n    levelList: null\n    uuid: null\n";
    let read = plain::read(text).unwrap();
    assert_eq!(read, PodData::try_from(yaml::read(text).unwrap()).unwrap());
    assert_eq!(read.devices[1].more.as_deref().unwrap().super_device_id, "167772160");
    for other in [
        "",
        "podName: a",
        "podName: \"a\\n\"",
        "x: \"a\"",
        "podName: \"a\" # b",
        " podName: \"a\"",
        "podName:\n- a: \"b\"",
        "devices: null\n- deviceId:\n",
        "{\"podName\":\"a\"}",
    ] {
        assert_eq!(plain::read(other), None, "{other:?}");
    }
}

fn lines() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "podName",
        "serverId",
        "devices",
        "deviceId",
        "deviceIp",
        "logicId",
        "levelList",
        "uuid",
        "other",
        "false",
    ]);
    let value = prop::sample::select(vec![
        "", " ", " null", " \"a\"", " \"\"", " \"a b\"", " 0", " 07", " 12", " x", " \"\\n\"",
        "\"a\"", " \"a\" ", " [", " 1e3",
    ]);
    let lead = prop::sample::select(vec!["", "- ", "  - ", "    ", "  ", "      "]);
    let line = (lead, key, value).prop_map(|(lead, key, value)| format!("{lead}{key}:{value}\n"));
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_plain_reader_reads_the_full_one_reads_alike(text in lines()) {
        if let Some(pod) = plain::read(&text) {
            let full = yaml::read(&text).and_then(PodData::try_from);
            prop_assert_eq!(Ok(pod), full, "{}", text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_annotation_panics(text in any::<String>()) {
        drop(template(None).parse(&text));
        drop(parse("{{ . }}", &text));
    }

    #[test]
    fn a_mutated_annotation_does_not_panic(at in 0usize..120, with in any::<char>()) {
        let good = r#"{"pod_name":"w-0","server_id":"10.0.0.1","devices":[{"device_id":"0","device_ip":"10.20.0.2"},{"device_id":"1"}]}"#;
        let text: String = good.chars().enumerate().map(|(index, char)| if index == at { with } else { char }).collect();
        drop(template(None).parse(&text));
    }
}

proptest! {
    /// What an agent reports gives the same pod whether it comes as a value or as the annotation that the agent writes.
    #[test]
    fn a_report_is_taken_as_its_annotation_is_read(
        (pod_name, server_id) in ("[ -~]{0,20}", "[ -~]{0,20}"),
        devices in proptest::collection::vec(("[ -~]{0,8}", "[ -~]{0,8}", proptest::option::of("[0-9]{1,5}")), 0..9),
    ) {
        let devices = devices.into_iter().map(|(device_id, device_ip, super_device_id)| AnnotatedDevice {
            device_id, device_ip, super_device_id, ..AnnotatedDevice::default()
        });
        let devices = devices.collect();
        let reported = PodRanktable { pod_name, server_id, devices, super_pod_id: None, server_index: None };
        let others = "podName: {{ (fromJson .).pod_name | quote }}\ndevices: [{superDeviceId: {{ len (fromJson .).devices }}}]";
        for template in [template(None), template(Some(others))] {
            prop_assert_eq!(Parser::new(&template).take(&reported), template.parse(&reported.write()));
        }
    }
}
