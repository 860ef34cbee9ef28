//! The templates under `deploy/templates`, each rendered and checked.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test reads the files that it is about"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_ranktable::{
    ConfigMap, Facts, NAMESPACE, Pod, Request, STANDARD_PARSER, Severity, TableTemplate, check,
};

fn shipped() -> BTreeMap<String, ConfigMap> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/templates"));
    let files = std::fs::read_dir(folder).unwrap();
    let read = files.map(|file| {
        let path = file.unwrap().path();
        let config_map = ConfigMap::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(Some(config_map.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert_eq!(config_map.namespace, NAMESPACE);
        (config_map.name.clone(), config_map)
    });
    read.collect()
}

/// Two prefill pods on a server each and one decode pod beside the first; 10 and 2 tell the orders apart.
fn pods() -> Vec<Pod> {
    let pod = |role: &str, index: usize, host: usize, devices: &[u32]| {
        let device = |id: &u32| {
            let super_device = (host << 22) as u32 | id;
            serde_json::json!({"device_id": id.to_string(), "device_ip": format!("10.1.{host}.{}", id + 1), "super_device_id": super_device})
        };
        let text = serde_json::json!({"pod_name": "x", "server_id": format!("192.168.0.{host}"), "host_ip": format!("192.168.0.{host}"),
            "super_pod_id": 7, "devices": devices.iter().map(device).collect::<Vec<_>>()});
        let labels = [
            ("modelserving.volcano.sh/role", role.to_owned()),
            ("modelserving.volcano.sh/role-id", format!("{role}-0")),
            ("modelserving.volcano.sh/entry", (index == 0).to_string()),
        ];
        Pod {
            name: format!("ms-0-{role}-0-{index}"),
            namespace: "n".into(),
            pod_ip: format!("172.16.{host}.{}", 10 * (index + 1) + role.len()),
            labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
            annotations: [("ascend.com/ranktable".to_owned(), text.to_string())].into(),
            ..Pod::default()
        }
    };
    vec![
        pod("prefill", 0, 1, &[2, 10]),
        pod("prefill", 1, 2, &[0, 1]),
        pod("decode", 0, 1, &[0, 1]),
    ]
}

fn render(name: &str) -> String {
    let shipped = shipped();
    let template = &shipped[name];
    let parser = &shipped[template.parser_name()];
    let template = TableTemplate::read(template, Some(parser)).unwrap();
    let request = Request { changed: "2026-01-02T03:04:05Z", ..Request::default() };
    template.render(&pods(), &request).unwrap().text
}

#[test]
fn every_table_that_hccl_or_mindie_reads_passes_the_check() {
    let mut tables = 0;
    for name in shipped().keys().filter(|name| name.starts_with("ascend-ranktable")) {
        let text = render(name);
        let errors: Vec<_> = check(&text, &Facts::default())
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        assert_eq!(errors, [], "{name}: {text}");
        tables += 1;
    }
    assert_eq!(tables, 8);
}

#[test]
fn the_seeds_templates_number_by_text_and_ours_by_number() {
    let order = |name: &str| -> Vec<String> {
        let table: serde_json::Value = serde_json::from_str(&render(name)).unwrap();
        let devices = table["server_list"][0]["device"].as_array().unwrap().clone();
        devices.iter().map(|device| device["device_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(order("ascend-ranktable-template-mindie-role"), ["0", "1", "10", "2"]);
    assert_eq!(order("ascend-ranktable-template-hccl-1-2"), ["0", "1", "2", "10"]);
}

#[test]
fn super_pods_and_long_ids_come_through() {
    let table: serde_json::Value =
        serde_json::from_str(&render("ascend-ranktable-template-hccl-1-2")).unwrap();
    assert_eq!(table["super_pod_list"][0]["super_pod_id"], "7");
    assert_eq!(table["server_list"][1]["device"][1]["super_device_id"], "8388609");
    assert_eq!(table["server_list"][0]["container_ip"], "172.16.1.16");
}

#[test]
fn the_global_table_has_a_group_for_each_role() {
    let table: serde_json::Value =
        serde_json::from_str(&render("ascend-ranktable-template-mindie-global")).unwrap();
    let group = &table["server_group_list"][3];
    assert_eq!((&group["group_id"], &group["role"]), (&"3".into(), &"prefill-0".into()));
    assert_eq!(group["server_list"][1]["device"][0]["rank_id"], "2");
}

#[test]
fn prefill_and_decode_are_counted_through() {
    let table: serde_json::Value =
        serde_json::from_str(&render("ascend-ranktable-template-vllm-pd")).unwrap();
    let device = |server: &str, id: &str, ip: &str, host: u32, cluster: &str| {
        let sdid = (host << 22 | id.parse::<u32>().unwrap()).to_string();
        serde_json::json!({"server_id": server, "device_id": id, "device_ip": ip,
            "super_pod_id": "7", "super_device_id": sdid, "cluster_id": cluster})
    };
    let expected = serde_json::json!({"version": "1.2", "server_count": "2", "status": "completed",
    "prefill_device_list": [
        device("192.168.0.1", "2", "10.1.1.3", 1, "1"),
        device("192.168.0.1", "10", "10.1.1.11", 1, "2"),
        device("192.168.0.2", "0", "10.1.2.1", 2, "3"),
        device("192.168.0.2", "1", "10.1.2.2", 2, "4"),
    ],
    "decode_device_list": [
        device("192.168.0.1", "0", "10.1.1.1", 1, "5"),
        device("192.168.0.1", "1", "10.1.1.2", 1, "6"),
    ]});
    assert_eq!(table, expected);
}

#[test]
fn gpu_groups_get_a_hostfile_and_an_environment() {
    assert_eq!(
        render("gpu-template-mpi-hostfile"),
        "172.16.1.16 slots=2\n172.16.1.17 slots=2\n172.16.2.27 slots=2\n"
    );
    let environment = render("gpu-template-pytorch-env");
    assert!(
        environment.starts_with(
            "MASTER_ADDR=172.16.1.16\nMASTER_PORT=29500\nNNODES=3\nNPROC_PER_NODE=2\nWORLD_SIZE=6\n"
        ),
        "{environment}"
    );
    assert!(environment.ends_with("NODE_RANK_ms_0_decode_0_0=0\nNODE_RANK_ms_0_prefill_0_0=1\nNODE_RANK_ms_0_prefill_0_1=2\n"), "{environment}");
}

#[test]
fn the_built_in_parser_is_the_shipped_one() {
    let shipped = shipped();
    let template = &shipped["ascend-ranktable-template-mindie-simple"];
    assert_eq!(template.parser_name(), STANDARD_PARSER);
    let built_in = TableTemplate::read(template, None).unwrap();
    let from_file = TableTemplate::read(template, Some(&shipped[STANDARD_PARSER])).unwrap();
    for pod in pods() {
        let annotation = pod.annotation().unwrap();
        assert_eq!(built_in.parse(annotation), from_file.parse(annotation));
    }
    assert!(built_in.render(&pods(), &Request::default()).is_ok());
}
