//! Who has what, and where there is room.

use serde_json::{Value as Json, json};

use crate::cluster_file::{ClusterFile, NPU, node};

fn named<'a>(list: &'a Json, name: &str) -> &'a Json {
    list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn queues_are_a_tree_with_sums() {
    let file = ClusterFile::new().waiting("big", "team-a", 3, 8).waiting("more", "team-b", 1, 4);
    let rows = file.json(&["queues"]);
    let names: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (&row["name"], &row["depth"])).collect();
    let expected =
        [("org", 0), ("team-a", 1), ("team-b", 1)].map(|(name, depth)| (json!(name), json!(depth)));
    assert_eq!(names, expected.iter().map(|(name, depth)| (name, depth)).collect::<Vec<_>>());
    let devices = |queue: &str, what: &str| named(&rows, queue)[what]["devices"].as_f64().unwrap();
    assert_eq!(devices("org", "allocated"), 8.0);
    assert_eq!(devices("org", "requested"), 36.0);
    assert_eq!(devices("team-a", "requested"), 24.0);
    assert_eq!(devices("team-b", "quota"), 8.0);
    assert_eq!(devices("team-b", "limit"), 8.0);
    assert_eq!(devices("team-a", "limit"), -1.0);
    // The cordoned node counts for nothing: 24 devices, 8 of them owned by each.
    assert_eq!((devices("team-a", "fairShare"), devices("team-b", "fairShare")), (16.0, 8.0));
    let waiting = |queue: &str| named(&rows, queue)["waitingGroups"].clone();
    assert_eq!([waiting("org"), waiting("team-a"), waiting("team-b")], [2, 1, 1]);
}

#[test]
fn a_table_of_queues_shows_devices_and_a_wide_one_all() {
    let file = ClusterFile::new();
    let (code, out, _) = file.text(&["queues"]);
    assert_eq!(code, 0);
    assert!(
        out.lines()
            .any(|line| line.split_whitespace().eq(["team-b", "8", "8", "8", "8", "8", "0"])),
        "{out}"
    );
    assert!(out.lines().any(|line| line.starts_with("  team-b")), "{out}");
    let (_, out, _) = file.ask(&["queues", "-o", "wide"]);
    assert!(out.contains("memory GiB"), "{out}");
}

#[test]
fn one_queue_comes_with_those_below_it_and_an_unknown_one_is_wrong_use() {
    let file = ClusterFile::new();
    assert_eq!(file.json(&["queues", "org"]).as_array().unwrap().len(), 3);
    assert_eq!(file.json(&["queues", "team-a"]).as_array().unwrap().len(), 1);
    let (code, _, error) = file.ask(&["queues", "x"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no queue x"), "{error}");
}

#[test]
fn a_queue_whose_parent_is_missing_is_named_on_stderr() {
    let file =
        ClusterFile::new().with("queues", [crate::cluster_file::queue("orphan", "absent", 1, 1)]);
    let (code, out, error) = file.text(&["queues"]);
    assert_eq!(code, 0);
    assert!(!out.contains("orphan"), "{out}");
    assert!(
        error.contains("left out: Queue orphan: its ancestor absent does not exist"),
        "{error}"
    );
}

#[test]
fn nodes_show_devices_free_and_faulty_ones_taints_and_state() {
    let withdrawn = node("n4", 6);
    let mut file = ClusterFile::new().with("nodes", [withdrawn, node("n5", 8)]);
    file.0["inventories"] = json!([{"node": "n5", "devices": [
        {"id": 0, "resource": NPU, "fault": "temperature"}, {"id": 1, "resource": NPU}]}]);
    let rows = file.json(&["nodes"]);
    let devices = |node: &str| {
        let devices = &named(&rows, node)["devices"][0];
        ["all", "free", "faulty", "fitting"].map(|what| devices[what].as_f64().unwrap())
    };
    assert_eq!(devices("n0"), [8.0, 0.0, 0.0, 0.0]);
    assert_eq!(devices("n1"), [8.0, 8.0, 0.0, 8.0]);
    assert_eq!(devices("n3"), [8.0, 8.0, 0.0, 0.0]);
    assert_eq!(devices("n4"), [8.0, 6.0, 2.0, 6.0]);
    assert_eq!(devices("n5"), [8.0, 7.0, 1.0, 7.0]);
    assert_eq!(named(&rows, "n2")["taints"], json!(["maintenance=yes:NoSchedule"]));
    assert_eq!(named(&rows, "n3")["state"], "unschedulable");
    assert_eq!(named(&rows, "n0")["cpus"], json!({"all": 64.0, "free": 63.0}));
}

#[test]
fn a_table_of_nodes_fits_a_terminal_and_can_be_narrowed_down() {
    let mut long =
        node("a-node-whose-name-is-as-long-as-names-of-cloud-providers-sometimes-are", 8);
    long["spec"]["taints"] =
        json!([{"key": "example.com/some-reason-that-is-long", "effect": "NoExecute"}]);
    let file = ClusterFile::new().with("nodes", [long]);
    let (code, out, _) = file.text(&["nodes"]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 6);
    let (_, wide, _) = file.ask(&["nodes", "-o", "wide"]);
    assert!(wide.contains("example.com/some-reason-that-is-long:NoExecute"), "{wide}");
    assert_eq!(file.json(&["nodes", "n1"]).as_array().unwrap().len(), 1);
    let (code, _, error) = file.ask(&["nodes", "n1", "n9"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no node n9"), "{error}");
}

#[test]
fn domains_show_what_is_free_and_the_largest_gang_that_fits() {
    let topology = json!({"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}});
    let mut outside = node("n9", 8);
    outside["metadata"]["labels"] = json!({});
    let mut other = node("n4", 0);
    other["status"]["allocatable"] =
        json!({"cpu": "64", "memory": "64Gi", "pods": "3", "nvidia.com/gpu": "4"});
    let file = ClusterFile::new().with("topologies", [topology]).with("nodes", [outside, other]);
    let trees = file.json(&["topology", "dc"]);
    let domains = &trees[0]["domains"];
    let gang = |name: &str| {
        let domain = named(domains, name);
        (domain["free"].as_f64().unwrap(), domain["largestGang"].as_u64().unwrap())
    };
    // Two nodes of eight take pods and are free; the tainted one counts, the cordoned one does not.
    assert_eq!(gang("z"), (28.0, 16));
    assert_eq!(named(domains, "z")["gangResource"], NPU);
    assert_eq!(gang("rack-of-n0"), (0.0, 0));
    assert_eq!(gang("rack-of-n1"), (8.0, 8));
    assert_eq!(gang("rack-of-n3"), (8.0, 0));
    // Four devices, but three pod slots.
    assert_eq!(gang("rack-of-n4"), (4.0, 3));
    assert_eq!(trees[0]["outside"], json!(["n9"]));
    let (code, out, error) = file.text(&["topology"]);
    assert_eq!(code, 0);
    assert!(out.lines().any(|line| line.starts_with("    rack-of-n1  rack")), "{out}");
    assert!(error.contains("topology dc: 1 nodes are in no domain, n9 is the first"), "{error}");
    let (code, _, error) = file.ask(&["topology", "x"]);
    assert_eq!(code, 2);
    assert!(error.contains("there is no topology x: there is dc"), "{error}");
}

#[test]
fn super_pods_are_a_topology_where_agents_tell_them() {
    let place = |node: &str, id: u32| json!({"node": node, "superPod": {"id": id, "serverIndex": 0, "size": 2}});
    let file = ClusterFile::new()
        .with("inventories", [place("n0", 1), place("n1", 1), place("n2", 2), place("n3", 2)]);
    let trees = file.json(&["topology", "super-pods"]);
    assert_eq!(named(&trees[0]["domains"], "1")["largestGang"], 8);
    assert_eq!(named(&trees[0]["domains"], "2")["largestGang"], 8);
}

#[test]
fn without_a_topology_the_cluster_is_one_domain() {
    let trees = ClusterFile::new().json(&["topology"]);
    assert_eq!(trees.as_array().unwrap().len(), 1);
    assert_eq!(trees[0]["domains"][0]["name"], "cluster");
    assert_eq!(trees[0]["domains"][0]["largestGang"], 16);
}
