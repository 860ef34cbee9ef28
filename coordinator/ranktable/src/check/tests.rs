use proptest::prelude::*;
use serde_json::json;

use super::*;

fn good() -> Json {
    json!({"version": "1.0", "status": "completed", "server_count": "2", "server_list": [
        {"server_id": "10.0.0.1", "host_ip": "10.0.0.1", "container_ip": "172.0.0.1", "device": [
            {"device_id": "0", "device_ip": "10.1.0.1", "rank_id": "0"},
            {"device_id": "1", "device_ip": "10.1.0.2", "rank_id": "1"}]},
        {"server_id": "10.0.0.2", "device": [
            {"device_id": "0", "device_ip": "10.1.0.3", "rank_id": "2"},
            {"device_id": "1", "device_ip": "10.1.0.4", "rank_id": "3"}]}]})
}

fn super_pods() -> Json {
    json!({"version": "1.2", "status": "completed", "server_count": "2", "server_list": [
        {"server_id": "a", "device": [{"device_id": "0", "super_device_id": "167772160", "rank_id": "0"},
            {"device_id": "1", "super_device_id": "167837697", "rank_id": "1"}]},
        {"server_id": "b", "device": [{"device_id": "0", "super_device_id": "171966464", "rank_id": "2"},
            {"device_id": "1", "super_device_id": "172032001", "rank_id": "3"}]}],
        "super_pod_list": [{"super_pod_id": "0", "server_list": [{"server_id": "a"}, {"server_id": "b"}]}]})
}

fn legacy() -> Json {
    json!({"status": "completed", "group_count": "1", "group_list": [{"group_name": "g", "device_count": "2", "instance_count": 2,
        "instance_list": [
            {"pod_name": "p", "server_id": "a", "devices": [{"device_id": "0", "device_ip": "10.0.0.1"}]},
            {"pod_name": "q", "server_id": "b", "devices": [{"device_id": "0", "device_ip": "10.0.0.2"}]}]}]})
}

fn levels() -> Json {
    json!({"version": "2.0", "status": "completed", "rank_count": 2, "rank_list": [
        {"rank_id": 0, "local_id": 0, "device_id": 0, "level_list": [
            {"net_layer": 0, "net_instance_id": "s", "rank_addr_list": [{"addr_type": "EID", "addr": "000000000000000000000000deadbe01"}]},
            {"net_layer": 3, "net_instance_id": "c", "rank_addr_list": [{"addr_type": "IP", "addr": "10.30.0.2"}]}]},
        {"rank_id": 1, "local_id": 1, "device_id": 1, "level_list": []}]})
}

fn global() -> Json {
    let service = |id: &str| json!({"group_id": id, "server_count": "1", "server_list": [{"server_id": "10.0.0.1", "server_ip": "172.0.0.1"}]});
    json!({"version": "1.0", "status": "completed", "server_group_list": [service("0"), service("1"),
        {"group_id": "2", "server_count": "1", "server_list": [{"server_id": "10.0.0.2", "server_ip": "172.0.0.2", "device": [
            {"device_id": "0", "device_ip": "10.1.0.1", "rank_id": "0"},
            {"device_id": "4", "device_ip": "10.1.0.2", "rank_id": "1"}]}]}]})
}

fn codes(json: &Json, facts: &Facts) -> Vec<&'static str> {
    let mut codes: Vec<_> =
        check(&json.to_string(), facts).iter().map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The table with one value replaced, or removed by null.
fn with(mut json: Json, path: &str, value: Json) -> Json {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = json.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Json::Object(entries), Json::Null) => drop(entries.remove(key)),
        (parent, value) => match key.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[key] = value,
        },
    }
    json
}

#[test]
fn good_tables_of_every_format_pass() {
    for table in [good(), super_pods(), legacy(), levels(), global()] {
        assert_eq!(check(&table.to_string(), &Facts::default()), [], "{table}");
    }
}

#[test]
fn each_mistake_has_its_code() {
    let device = "/server_list/1/device/0";
    let at = |key: &str| format!("{device}/{key}");
    let cases: Vec<(Json, &[&str])> = vec![
        (with(good(), "/status", Json::Null), &["status_missing"]),
        (with(good(), "/status", json!("initializing")), &["status_not_completed"]),
        (with(good(), "/status", json!(1)), &["status_not_string"]),
        (with(good(), "/version", Json::Null), &["version_missing"]),
        (with(good(), "/version", json!("3.0")), &["version_unknown"]),
        (with(good(), "/server_count", json!("3")), &["server_count_mismatch"]),
        (with(good(), "/server_count", json!(2)), &["value_not_string"]),
        (with(good(), "/server_list", json!([])), &["server_count_mismatch", "server_list_empty"]),
        (with(good(), "/server_list", Json::Null), &["server_list_missing"]),
        (with(good(), "/server_list/1/server_id", json!("10.0.0.1")), &["server_id_duplicate"]),
        (with(good(), "/server_list/1/server_id", json!("")), &["server_id_empty"]),
        (with(good(), "/server_list/0/server_id", json!("172.0.0.1")), &["server_id_is_pod_ip"]),
        (with(good(), "/server_list/0/host_ip", json!("x")), &["host_ip_invalid"]),
        (with(good(), "/server_list/1/device", json!([])), &["device_list_empty"]),
        (
            with(good(), &at("device_id"), json!("1")),
            &["device_id_duplicate", "rank_order_not_numeric"],
        ),
        (
            with(good(), &at("device_id"), json!("x")),
            &["device_id_not_decimal", "rank_order_not_numeric"],
        ),
        (
            with(good(), &at("rank_id"), json!("3")),
            &["rank_id_duplicate", "rank_order_not_numeric"],
        ),
        (with(good(), "/server_list/1/device/1/rank_id", json!("4")), &["rank_id_not_contiguous"]),
        (with(good(), &at("rank_id"), json!("-1")), &["rank_id_not_decimal"]),
        (with(good(), &at("rank_id"), json!(2)), &["value_not_string"]),
        (with(good(), &at("rank_id"), Json::Null), &["rank_id_missing"]),
        (with(good(), &at("device_ip"), json!("10.1.0.1")), &["device_ip_duplicate"]),
        (with(good(), &at("device_ip"), json!("10.1.0")), &["device_ip_invalid"]),
        (with(good(), &at("device_ip"), json!("10.2.0.1,10.2.0.2")), &["device_ip_count_mismatch"]),
        (with(good(), &at("device_ip"), json!("")), &["device_ip_missing_multi_server"]),
        (with(good(), &at("device_ip"), json!("127.0.0.1")), &["device_ip_placeholder"]),
        (with(good(), &at("device_port"), json!("0")), &["port_invalid"]),
        (with(good(), &at("net_protocol"), json!("udp")), &["net_word_unknown"]),
        (with(good(), &at("super_device_id"), json!("1")), &["schema_chip_mismatch"]),
        (
            with(super_pods(), "/super_pod_list/0/server_list/1", json!({"server_id": "z"})),
            &["server_without_super_pod", "super_pod_server_unknown"],
        ),
        (
            with(super_pods(), &at("super_device_id"), json!("167772160")),
            &["super_device_id_duplicate"],
        ),
        (
            with(super_pods(), &at("super_device_id"), json!("4294967295")),
            &["super_device_id_invalid"],
        ),
        (
            with(super_pods(), &at("super_device_id"), json!("171966465")),
            &["super_device_id_mismatch"],
        ),
        (with(super_pods(), &at("super_device_id"), Json::Null), &["super_device_id_missing"]),
        (
            with(super_pods(), "/super_pod_list", Json::Null),
            &["device_ip_missing_multi_server", "super_pod_list_missing"],
        ),
        (with(legacy(), "/group_count", json!("2")), &["group_count_mismatch"]),
        (with(legacy(), "/group_list/0/device_count", json!("3")), &["device_count_mismatch"]),
        (
            with(legacy(), "/group_list/0/instance_list/1/server_id", json!("a")),
            &["device_id_duplicate"],
        ),
        (with(legacy(), "/version", json!("1.0")), &["version_unexpected"]),
        (with(levels(), "/rank_count", json!("2")), &["rank_count_mismatch"]),
        (with(levels(), "/rank_list/1/rank_id", json!("1")), &["value_not_integer"]),
        (with(levels(), "/rank_list/1/rank_id", json!(2)), &["rank_id_not_contiguous"]),
        (with(levels(), "/rank_list/0/level_list/1/net_layer", json!(0)), &["net_layer_invalid"]),
        (
            with(levels(), "/rank_list/0/level_list/0/rank_addr_list/0/addr", json!("x")),
            &["addr_invalid"],
        ),
        (
            with(global(), "/server_group_list/2/group_id", json!("0")),
            &["device_list_unexpected", "group_id_duplicate"],
        ),
        (
            with(global(), "/server_group_list/2/server_list/0/server_ip", json!("")),
            &["server_ip_invalid"],
        ),
        (
            with(global(), "/server_group_list/2/server_list/0/device/1/rank_id", json!("2")),
            &["rank_id_not_contiguous"],
        ),
        (json!({"status": "initializing"}), &["status_not_completed"]),
        (json!({"status": "completed"}), &["format_unknown"]),
        (json!([]), &["not_an_object"]),
    ];
    for (table, expected) in cases {
        assert_eq!(codes(&table, &Facts::default()), expected, "{table}");
    }
    assert_eq!(check("", &Facts::default())[0].code, "json_invalid");
}

#[test]
fn a_chip_adds_rules() {
    let facts = |chip| Facts { chip: Chip::parse(chip), ..Facts::default() };
    assert_eq!(codes(&good(), &facts("910b")), [""; 0]);
    assert_eq!(codes(&good(), &facts("a3")), ["schema_chip_mismatch"]);
    assert_eq!(codes(&good(), &facts("a5")), ["schema_chip_mismatch"]);
    assert_eq!(codes(&levels(), &facts("a5")), [""; 0]);
    assert_eq!(codes(&super_pods(), &facts("910b")), ["schema_chip_mismatch"]);
    let high = with(good(), "/server_list/1/device/1/device_id", json!("8"));
    assert_eq!(codes(&high, &facts("910a")), ["device_id_out_of_range"]);
}

#[test]
fn addresses_of_pods_are_no_server_ids() {
    let facts = Facts { pod_ips: ["10.0.0.2".to_owned()].into(), ..Facts::default() };
    assert_eq!(codes(&good(), &facts), ["server_id_is_pod_ip"]);
}

#[test]
fn a_finding_names_the_place_and_the_remedy() {
    let table = with(good(), "/server_list/1/device/0/device_ip", json!("10.1.0.1"));
    let finding = &check(&table.to_string(), &Facts::default())[0];
    assert_eq!(
        finding.to_string(),
        "error device_ip_duplicate at server 10.0.0.2, device 0, rank 2: device_ip 10.1.0.1 is also that of \
         server 10.0.0.1, device 0, rank 0; give every port an address of its own"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_given_as_a_table_panics(text in any::<String>(), at in 0usize..600, byte in any::<u8>()) {
        drop(check(&text, &Facts::default()));
        for table in [good(), super_pods(), legacy(), levels(), global()] {
            let mut bytes = table.to_string().into_bytes();
            if let Some(slot) = bytes.get_mut(at) {
                *slot = byte;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            drop(check(&text, &Facts::default()));
            drop(crate::diff::diff(&text, &good().to_string()));
            drop(crate::migrate::table(&text));
        }
    }
}
