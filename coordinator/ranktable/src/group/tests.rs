use super::*;
use crate::render::Request;
use crate::template::ConfigMap;

fn pod(name: &str, server: &str, devices: &[(&str, &str)]) -> Pod {
    let devices: Vec<_> = devices
        .iter()
        .map(|(id, ip)| serde_json::json!({"device_id": id, "device_ip": ip}))
        .collect();
    let text = serde_json::json!({"pod_name": name, "server_id": server, "devices": devices});
    let annotations = [(muster_proto::annotation::KEY.to_owned(), text.to_string())].into();
    Pod { name: name.into(), namespace: "n".into(), annotations, ..Pod::default() }
}

fn template() -> TableTemplate {
    let data = [("ranktable-template".to_owned(), "{{ toJson . }}".to_owned())].into();
    TableTemplate::read(&ConfigMap { name: "t".into(), data, ..ConfigMap::default() }, None)
        .unwrap()
}

#[test]
fn pods_on_one_server_share_it() {
    let pods = [pod("b", "s", &[("1", "1.1.1.2")]), pod("a", "s", &[("0", "1.1.1.1")])];
    let table = template().assemble(&pods, &Request::default()).unwrap();
    assert_eq!((table.server_count, table.total_devices), (1, 2));
    assert_eq!(table.servers[0].pod_names, ["a", "b"]);
    assert_eq!(table.servers[0].devices[0].device_id, "0");
}

#[test]
fn what_makes_no_group_is_refused_and_named() {
    let good = pod("a", "s", &[("0", "1.1.1.1")]);
    let mut bare = good.clone();
    bare.annotations.clear();
    bare.name = "bare".into();
    let cases: Vec<(Vec<Pod>, &str, &str)> = vec![
        (vec![], "no pods", "no-pods"),
        (
            vec![pod("e", "s", &[]), bare.clone()],
            "1 of 2 pods have no annotation ascend.com/ranktable: n/bare",
            "annotation-missing",
        ),
        (
            vec![good.clone(), bare],
            "1 of 2 pods have no annotation ascend.com/ranktable: n/bare",
            "annotation-missing",
        ),
        (vec![pod("e", "s", &[])], "pod n/e on server \"s\" names no devices", "no-devices"),
        (
            vec![good.clone(), pod("b", "s", &[("0", "1.1.1.9")])],
            "device 0 of server s is named twice, by pod n/a and by pod n/b",
            "device-twice",
        ),
        (vec![pod("e", "", &[("0", "")])], "pod n/e: serverId \"\"", "value-invalid"),
        (vec![pod("e", "a\"b", &[("0", "")])], "serverId", "value-invalid"),
        (vec![pod("e", "s", &[("01", "")])], "deviceId \"01\"", "value-invalid"),
        (vec![pod("e", "s", &[("a\u{1}", "")])], "deviceId", "value-invalid"),
        (vec![pod("e", "s", &[("0", "1.1.1")])], "deviceIp \"1.1.1\"", "value-invalid"),
        (vec![pod("e", "s", &[("0", "127.0.0.1")])], "deviceIp", "value-invalid"),
        (vec![pod("e", "s", &[("0", "-1")])], "deviceIp", "value-invalid"),
    ];
    for (pods, message, reason) in cases {
        let error = template().assemble(&pods, &Request::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.reason(), reason);
        // The recorded behaviour refuses none of this.
        template().assemble(&pods, &Request { lenient: true, ..Request::default() }).unwrap();
    }
}

#[test]
fn a_device_that_two_pods_name_is_found_in_every_order() {
    let pods = [
        pod("a-0", "s", &[("0", ""), ("1", "")]),
        pod("a-1", "s", &[("2", "")]),
        pod("a-2", "s", &[("3", ""), ("1", "")]),
    ];
    for order in ["lexical", "numeric", "pod", "topology"] {
        let order = crate::order::Order::parse(order);
        let error =
            template().assemble(&pods, &Request { order, ..Request::default() }).unwrap_err();
        assert!(error.to_string().contains("by pod n/a-0 and by pod n/a-2"), "{order:?}: {error}");
    }
}

#[test]
fn usual_ids_and_addresses_are_allowed() {
    let devices =
        [("0", "10.0.0.1"), ("15", "fd00::1"), ("GPU-8f2c", ""), ("7", "10.0.0.2,10.0.0.3")];
    template().assemble(&[pod("a", "fd00::10", &devices)], &Request::default()).unwrap();
}

#[test]
fn many_missing_pods_are_not_all_named() {
    let names: Vec<String> = (0..20).map(|number| format!("p-{number}")).collect();
    assert!(some(&names).ends_with("p-7 and 12 more"));
}
