use super::*;
use crate::template::ConfigMap;

fn pods() -> Vec<Pod> {
    let text =
        r#"{"pod_name":"w-0","server_id":"s","devices":[{"device_id":"0","device_ip":"1.1.1.1"}]}"#;
    let annotations = [("ascend.com/ranktable".to_owned(), text.to_owned())].into();
    vec![Pod { name: "w-0".into(), pod_ip: "172.0.0.1".into(), annotations, ..Pod::default() }]
}

fn render(template: &str, filename: &str, lenient: bool) -> Result<String, RenderError> {
    let data = [("ranktable-template", template), ("filename", filename)];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let template = ConfigMap { name: "t".into(), data, ..ConfigMap::default() };
    let template = TableTemplate::read(&template, None)?;
    let request = Request { changed: "T", lenient, ..Request::default() };
    template.render(&pods(), &request).map(|rendered| rendered.text)
}

#[test]
fn the_first_fields_are_the_seeds_and_alone_when_lenient() {
    let seed = r#"{"Status":"completed","ServerCount":1,"TotalDevices":1,"Timestamp":"T","Servers":[{"ServerId":"s","Devices":[{"DeviceId":"0","DeviceIp":"1.1.1.1","RankId":"0"}]}]}"#;
    assert_eq!(render("{{ toJson . }}", "a.json", true).unwrap(), seed);
    let full = render("{{ toJson . }}", "a.json", false).unwrap();
    assert!(full.starts_with(r#"{"Status":"completed","ServerCount":1,"TotalDevices":1,"Timestamp":"T","Servers":[{"ServerId":"s","Devices":[{"DeviceId":"0","DeviceIp":"1.1.1.1","RankId":"0","SuperDeviceId":"","#), "{full}");
    assert!(full.contains(r#""ContainerIp":"172.0.0.1","PodNames":["w-0"]"#), "{full}");
}

#[test]
fn a_field_that_does_not_exist_is_an_error_with_its_place() {
    let error = render("a\n{{ .Nope }}", "a", false).unwrap_err();
    assert_eq!((error.stage(), error.reason()), ("ranktable-template", "template-failed"));
    assert!(
        error
            .to_string()
            .starts_with("ConfigMap t, key ranktable-template: template: ranktable-template:2:3:"),
        "{error}"
    );
    let further = "{{ range .Servers }}{{ .HostIp }}{{ .Extras.x }}{{ end }}";
    assert_eq!(render(further, "a", false).unwrap(), "<no value>");
    assert!(render(further, "a", true).is_err(), "the seed has no such field");
}

#[test]
fn pods_and_roles_are_there_for_templates_that_ask_for_them() {
    let asked = "{{ len .SuperPods }} {{ len .Pods }}{{ range .Roles }} {{ len .Pods }}{{ end }}";
    assert_eq!(render(asked, "a", false).unwrap(), "0 1 1");
    let pods = |template: &str| {
        let data = [("ranktable-template".to_owned(), template.to_owned())].into();
        let template = ConfigMap { name: "t".into(), data, ..ConfigMap::default() };
        let template = TableTemplate::read(&template, None).unwrap();
        template.assemble(&pods(), &Request::default()).unwrap().pods.len()
    };
    assert_eq!((pods("{{ .Pods }}"), pods("{{ .SuperPods }}")), (1, 0));
}

#[test]
fn a_json_file_holds_json() {
    let error = render("{\"a\": 1,}", "a.json", false).unwrap_err();
    assert_eq!(error.reason(), "output-not-json");
    assert!(error.to_string().contains("line 1 column 9"), "{error}");
    assert_eq!(render("{\"a\": 1,}", "a.txt", false).unwrap(), "{\"a\": 1,}");
    assert_eq!(render("{\"a\": 1,}", "a.json", true).unwrap(), "{\"a\": 1,}");
}

#[test]
fn ranks_are_texts_of_numbers() {
    for rank in [0, 7, 10, 99_999, u32::MAX] {
        let text = crate::table::Rank::new(rank);
        assert_eq!(text.as_str(), rank.to_string());
        assert_eq!(text.number(), rank);
    }
}
