//! Devices that pods claim one by one.

use muster_scheduler::{
    config::Config,
    decide,
    decisions::Decisions,
    input::{Limits, load},
    reason::Reason,
    simulate, snapshot,
};
use serde_json::{Value, json};

/// A cluster of nodes whose devices a driver offers.
struct Rack {
    document: Value,
}

impl Rack {
    fn new() -> Self {
        let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        let select = |text: &str| json!([{"cel": {"expression": text}}]);
        Self {
            document: json!({"now": "2026-01-01T00:00:00Z", "nodes": [], "pods": [], "podGroups": [],
                "resourceSlices": [], "resourceClaims": [],
                "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {"gpu": free, "cpu": free, "memory": free}}}],
                "deviceClasses": [
                    {"metadata": {"name": "npu"}, "spec": {"selectors": select("device.driver == 'npu.example.com'"),
                        "extendedResourceName": "example.com/npu",
                        "config": [{"opaque": {"driver": "npu.example.com", "parameters": {"mode": "fast"}}}]}},
                    {"metadata": {"name": "gpu"}, "spec": {"selectors": select("device.driver == 'gpu.example.com'")}}]}),
        }
    }

    fn push(mut self, list: &str, object: Value) -> Self {
        self.document[list].as_array_mut().unwrap().push(object);
        self
    }

    /// A node whose devices are on two boards, four on each, the higher ones newer.
    fn node(self, name: &str, driver: &str, devices: u32) -> Self {
        let device = |n: u32| {
            json!({"name": format!("dev-{n}"),
            "attributes": {"index": {"int": n}, "board": {"int": n / 4}, "model": {"string": if n < 4 { "old" } else { "new" }},
                "firmware": {"version": format!("1.{n}.0")}},
            "capacity": {"memory": {"value": format!("{}Gi", 32 + n)}}})
        };
        self.bare_node(name).push(
            "resourceSlices",
            json!({"metadata": {"name": format!("{name}-slice")},
            "spec": {"driver": driver, "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": (0..devices).map(device).collect::<Vec<_>>()}}),
        )
    }

    fn bare_node(self, name: &str) -> Self {
        self.push(
            "nodes",
            json!({"metadata": {"name": name, "labels": {"host": name}},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}}),
        )
    }

    /// A claim of one request.
    fn claim(self, name: &str, request: Value) -> Self {
        self.claim_of(name, json!({"requests": [{"name": "r", "exactly": request}]}), Value::Null)
    }

    fn claim_of(self, name: &str, devices: Value, status: Value) -> Self {
        self.push("resourceClaims", json!({"metadata": {"name": name, "namespace": "ns", "labels": {"kai.scheduler/queue": "q"}},
            "spec": {"devices": devices}, "status": status}))
    }

    /// A pod with a group of its own that uses claims.
    fn pod(self, name: &str, node: &str, claims: &[&str]) -> Self {
        let claims: Vec<_> =
            claims.iter().map(|claim| json!({"name": claim, "resourceClaimName": claim})).collect();
        self.pod_of(name, node, json!({"resourceClaims": claims}), json!({"cpu": "1"}), json!({}))
    }

    fn pod_of(
        self,
        name: &str,
        node: &str,
        mut spec: Value,
        requests: Value,
        group: Value,
    ) -> Self {
        spec["schedulerName"] = json!("kai-scheduler");
        spec["nodeName"] = json!(node);
        spec["containers"] = json!([{"name": "main", "resources": {"requests": requests}}]);
        let mut wants = group;
        wants["queue"] = json!("q");
        let phase = if node.is_empty() { "Pending" } else { "Running" };
        self.push("podGroups", json!({"metadata": {"name": name, "namespace": "ns"}, "spec": wants})).push(
            "pods",
            json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"pod-group-name": name}},
                "spec": spec, "status": {"phase": phase}}),
        )
    }

    fn decide(&self) -> Decisions {
        self.cycles(1).pop().unwrap()
    }

    fn cycles(&self, count: usize) -> Vec<Decisions> {
        let mut document = load(self.document.to_string().as_bytes(), Limits::default()).unwrap();
        assert_eq!(document.input.set_aside, []);
        let config = Config::of_document(&document, &[]).unwrap();
        let mut all = Vec::new();
        for _ in 0..count {
            let now = document.input.now.unwrap();
            let decided =
                decide(&snapshot::build(&document.input, &config.params, now), &config, now);
            let later = now + jiff::SignedDuration::from_secs(1);
            simulate::apply(&mut document.input, &decided, later);
            all.push(decided);
        }
        all
    }
}

/// `action pod node: claim=request/device…`.
fn told(decisions: &Decisions) -> Vec<String> {
    let line = |it: &muster_scheduler::decisions::Decision| {
        let claims =
            it.claims.iter().filter_map(|claim| Some((&claim.name, claim.allocation.as_ref()?)));
        let claims: Vec<String> = claims
            .map(|(name, allocation)| {
                let devices = allocation.devices.results.iter();
                let devices: Vec<_> =
                    devices.map(|it| format!("{}:{}", it.request, it.device)).collect();
                format!(" {name}={}", devices.join("+"))
            })
            .collect();
        let action = format!("{:?}", it.action).to_lowercase();
        format!("{action} {} {}{}", it.pod.trim_start_matches("ns/"), it.node, claims.concat())
    };
    decisions.decisions.iter().map(line).collect()
}

fn selected(text: &str, count: u32) -> Value {
    json!({"deviceClassName": "npu", "count": count, "selectors": [{"cel": {"expression": text}}]})
}

#[test]
fn a_claim_gets_the_devices_that_its_class_and_selectors_mean() {
    let attributes = "device.attributes['npu.example.com']";
    let capacity = "device.capacity['npu.example.com']";
    for (selector, count, devices) in [
        ("true".to_owned(), 2, "r:dev-0+r:dev-1"),
        (format!("{attributes}.model == 'new'"), 1, "r:dev-4"),
        (format!("{attributes}.index in [3, 5]"), 2, "r:dev-3+r:dev-5"),
        (format!("{capacity}.memory.compareTo(quantity('37Gi')) > 0"), 1, "r:dev-6"),
        (
            format!(
                "{attributes}.firmware.isGreaterThan(semver('1.2.0')) && !({attributes}.index == 3)"
            ),
            1,
            "r:dev-4",
        ),
    ] {
        let rack = Rack::new().bare_node("a").node("b", "npu.example.com", 8);
        let rack = rack.claim("c", selected(&selector, count)).pod("p", "", &["c"]);
        assert_eq!(told(&rack.decide()), [format!("bind p b c={devices}")], "{selector}");
    }
}

#[test]
fn a_decision_holds_the_allocation_as_the_claim_will_have_it() {
    let rack = Rack::new().node("a", "npu.example.com", 8).claim("c", selected("true", 1)).pod(
        "p",
        "",
        &["c"],
    );
    let decided = rack.decide();
    assert_eq!(
        serde_json::to_value(&decided.decisions[0].claims).unwrap(),
        json!([{"name": "c", "claim": "ns/c", "allocation": {
            "devices": {
                "results": [{"request": "r", "driver": "npu.example.com", "pool": "a", "device": "dev-0"}],
                "config": [{"source": "FromClass", "opaque": {"driver": "npu.example.com", "parameters": {"mode": "fast"}}}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}])
    );
}

#[test]
fn no_device_is_given_twice_within_a_cycle_or_across_cycles() {
    let mut rack = Rack::new().node("a", "npu.example.com", 4).node("b", "npu.example.com", 4);
    for name in ["c0", "c1", "c2", "c3"] {
        rack = rack.claim(name, selected("true", 3));
    }
    let rack = rack.pod("p0", "", &["c0"]).pod("p1", "", &["c1"]).pod("p2", "", &["c2"]);
    let cycles = rack.cycles(2);
    let first = told(&cycles[0]);
    assert_eq!(
        first,
        ["bind p0 a c0=r:dev-0+r:dev-1+r:dev-2", "bind p1 b c1=r:dev-0+r:dev-1+r:dev-2"]
    );
    assert_eq!(told(&cycles[1]), [""; 0], "what was given stays given");
    let waiting = &cycles[1].reasons["ns/p2"];
    assert_eq!(waiting.reason, Reason::NoRoom, "{waiting:?}");
    assert_eq!(waiting.nodes["device claim (3 asked for, 1 of 4 that match are free)"], 2);
}

#[test]
fn a_gang_whose_claims_cannot_all_be_met_gets_nothing() {
    let mut rack = Rack::new().node("a", "npu.example.com", 4);
    rack = rack.claim("c0", selected("true", 3)).claim("c1", selected("true", 3));
    let spec =
        |claim: &str| json!({"resourceClaims": [{"name": claim, "resourceClaimName": claim}]});
    rack = rack.pod_of("g", "", spec("c0"), json!({"cpu": "1"}), json!({"minMember": 2}));
    let mut second = rack.document["pods"][0].clone();
    second["metadata"]["name"] = json!("g2");
    second["metadata"]["uid"] = json!("g2");
    second["spec"]["resourceClaims"] = spec("c1")["resourceClaims"].clone();
    let rack = rack.push("pods", second).claim("c2", selected("true", 4)).pod("z", "", &["c2"]);
    assert_eq!(
        told(&rack.decide()),
        ["bind z a c2=r:dev-0+r:dev-1+r:dev-2+r:dev-3"],
        "the first try left nothing behind"
    );
}

#[test]
fn devices_that_must_be_alike_are_alike_and_those_that_must_differ_differ() {
    let two = |rule: Value| {
        json!({"requests": [{"name": "x", "exactly": selected("device.attributes['npu.example.com'].index >= 2", 3)}],
        "constraints": [rule]})
    };
    let rack = |rule: Value| {
        Rack::new()
            .node("a", "npu.example.com", 8)
            .claim_of("c", two(rule), Value::Null)
            .pod("p", "", &["c"])
            .decide()
    };
    let board = "npu.example.com/board";
    assert_eq!(
        told(&rack(json!({"matchAttribute": board}))),
        ["bind p a c=x:dev-4+x:dev-5+x:dev-6"]
    );
    assert_eq!(told(&rack(json!({"matchAttribute": "npu.example.com/odd"}))), [""; 0]);
    let decided = rack(json!({"distinctAttribute": board}));
    let why = "device claim (3 asked for, 6 of 6 that match are free, none are right together)";
    assert_eq!(decided.reasons["ns/p"].nodes[why], 1, "{:?}", decided.reasons);
}

#[test]
fn the_first_choice_that_can_be_had_is_taken() {
    let choices = json!({"requests": [{"name": "r", "firstAvailable": [
        {"name": "many", "deviceClassName": "npu", "count": 16},
        {"name": "new", "deviceClassName": "npu", "count": 2, "selectors": [{"cel": {"expression": "device.attributes['npu.example.com'].model == 'new'"}}]},
        {"name": "any", "deviceClassName": "npu", "count": 1}]}]});
    let rack = |devices: u32| {
        Rack::new()
            .node("a", "npu.example.com", devices)
            .claim_of("c", choices.clone(), Value::Null)
            .pod("p", "", &["c"])
            .decide()
    };
    assert_eq!(told(&rack(8)), ["bind p a c=r/new:dev-4+r/new:dev-5"]);
    assert_eq!(told(&rack(4)), ["bind p a c=r/any:dev-0"]);
}

#[test]
fn all_means_all_and_waits_for_pools_that_are_not_told_in_full() {
    let all = json!({"deviceClassName": "npu", "allocationMode": "All"});
    let rack = Rack::new()
        .bare_node("0")
        .node("a", "npu.example.com", 3)
        .claim("c", all.clone())
        .pod("p", "", &["c"]);
    assert_eq!(told(&rack.decide()), ["bind p a c=r:dev-0+r:dev-1+r:dev-2"]);
    let mut rack = rack;
    rack.document["resourceSlices"][0]["spec"]["pool"]["resourceSliceCount"] = json!(2);
    let decided = rack.decide();
    assert_eq!(
        decided.reasons["ns/p"].nodes["device pool not told in full yet"], 1,
        "{:?}",
        decided.reasons
    );
    // A newer generation replaces the older one.
    let mut newer = rack.document["resourceSlices"][0].clone();
    newer["metadata"]["name"] = json!("newer");
    newer["spec"]["pool"] = json!({"name": "a", "generation": 2, "resourceSliceCount": 1});
    newer["spec"]["devices"] = json!([{"name": "only"}]);
    assert_eq!(told(&rack.push("resourceSlices", newer).decide()), ["bind p a c=r:only"]);
}

#[test]
fn who_only_looks_does_not_take() {
    let look = json!({"deviceClassName": "npu", "allocationMode": "All", "adminAccess": true});
    let rack = Rack::new()
        .node("a", "npu.example.com", 1)
        .claim("use", selected("true", 1))
        .claim("look", look)
        .pod("user", "", &["use"])
        .pod("watcher", "", &["look"]);
    let cycles = rack.cycles(2);
    assert_eq!(told(&cycles[0]), ["bind user a use=r:dev-0", "bind watcher a look=r:dev-0"]);
}

#[test]
fn pods_that_share_a_claim_share_its_devices_and_its_node() {
    let rack = Rack::new()
        .node("a", "gpu.example.com", 1)
        .node("b", "gpu.example.com", 1)
        .claim("c", json!({"deviceClassName": "gpu"}))
        .pod("p0", "", &["c"])
        .pod("p1", "", &["c"])
        .pod("p2", "", &["c"]);
    assert_eq!(
        told(&rack.decide()),
        ["bind p0 a c=r:dev-0", "bind p1 a c=r:dev-0", "bind p2 a c=r:dev-0"]
    );
    // One that has its devices already keeps its pods there.
    let has = json!({"allocation": {"devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "b", "device": "dev-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}},
        "reservedFor": [{"resource": "pods", "name": "gone", "uid": "gone"}]});
    let mut given = rack;
    given.document["resourceClaims"][0]["status"] = has;
    assert_eq!(told(&given.decide()), ["bind p0 b", "bind p1 b", "bind p2 b"]);
    given.document["nodes"].as_array_mut().unwrap().retain(|node| node["metadata"]["name"] == "a");
    let decided = given.decide();
    assert_eq!(decided.reasons["ns/p0"].reason, Reason::NoNodeAllows, "{:?}", decided.reasons);
}

#[test]
fn what_is_promised_to_a_claim_by_a_bind_request_is_taken() {
    let allocation = json!({"devices": {"results": [{"request": "r", "driver": "npu.example.com", "pool": "a", "device": "dev-0"}]}});
    let mut rack = Rack::new()
        .node("a", "npu.example.com", 2)
        .claim("first", selected("true", 1))
        .claim("second", selected("true", 1))
        .pod("p0", "", &["first"])
        .pod("p1", "", &["second"]);
    rack.document["bindRequests"] = json!([{"metadata": {"name": "p0", "namespace": "ns"},
        "spec": {"podName": "p0", "selectedNode": "a", "resourceClaimAllocations": [{"name": "first", "allocation": allocation}]}}]);
    assert_eq!(told(&rack.decide()), ["bind p1 a second=r:dev-1"]);
}

#[test]
fn a_more_important_pod_gets_the_devices_of_one_that_has_to_leave() {
    let has = json!({"allocation": {"devices": {"results": [
        {"request": "r", "driver": "npu.example.com", "pool": "a", "device": "dev-0"},
        {"request": "r", "driver": "npu.example.com", "pool": "a", "device": "dev-1"}]}},
        "reservedFor": [{"resource": "pods", "name": "low", "uid": "low"}]});
    let devices = json!({"requests": [{"name": "r", "exactly": selected("true", 2)}]});
    let claim = |name: &str| json!({"resourceClaims": [{"name": name, "resourceClaimName": name}]});
    let mut rack = Rack::new()
        .node("a", "npu.example.com", 2)
        .claim_of("old", devices.clone(), has)
        .claim_of("new", devices, Value::Null)
        .pod("low", "a", &["old"])
        .pod_of(
            "high",
            "",
            claim("new"),
            json!({"cpu": "1"}),
            json!({"priorityClassName": "high"}),
        );
    rack.document["priorityClasses"] = json!([{"metadata": {"name": "high"}, "value": 90}]);
    assert_eq!(told(&rack.decide()), ["pipeline high a", "evict low a"]);
    // Of one that leaves by itself too: promised, not bound, and nobody else is evicted.
    rack.document["pods"][0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(told(&rack.decide()), ["pipeline high a"]);
}

#[test]
fn devices_that_several_nodes_can_use_are_given_once() {
    let slice = json!({"metadata": {"name": "fabric"}, "spec": {"driver": "npu.example.com",
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": ["b", "c"]}]}]},
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "x"}]}});
    let rack = Rack::new()
        .bare_node("a")
        .bare_node("b")
        .bare_node("c")
        .push("resourceSlices", slice)
        .claim("c0", selected("true", 1))
        .claim("c1", selected("true", 1))
        .pod("p0", "", &["c0"])
        .pod("p1", "", &["c1"]);
    let decided = rack.decide();
    assert_eq!(told(&decided), ["bind p0 b c0=r:x"]);
    let selector =
        decided.decisions[0].claims[0].allocation.as_ref().unwrap().node_selector.as_ref().unwrap();
    assert_eq!(selector.node_selector_terms[0].match_expressions[0].values, ["b", "c"]);
}

#[test]
fn what_is_wrong_with_a_claim_is_said() {
    let told = |rack: Rack| {
        let decided = rack.node("a", "npu.example.com", 4).pod("p", "", &["c"]).decide();
        let waiting = &decided.reasons["ns/p"];
        assert_eq!(waiting.reason, Reason::MissingDeviceClaim, "{waiting:?}");
        waiting.message.clone()
    };
    assert_eq!(told(Rack::new()), "claim c does not exist: create it");
    assert_eq!(
        told(Rack::new().claim("c", json!({"deviceClassName": "odd"}))),
        "claim c: request r: device class odd does not exist: create it"
    );
    assert_eq!(
        told(Rack::new().claim("c", selected("device.drivr ==", 1))),
        "claim c: request r: it has a selector that cannot be read: at byte 15: a value is expected here"
    );
    assert_eq!(
        told(Rack::new().claim("c", selected("true", 33))),
        "claim c: it asks for 33 devices, and a claim can have 32: make several"
    );
    let mut other = Rack::new().claim("c", json!({"deviceClassName": "gpu"}));
    other.document["resourceClaims"][0]["metadata"]["labels"] =
        json!({"kai.scheduler/queue": "theirs"});
    let mut rack = other.node("g", "gpu.example.com", 1);
    rack = rack.pod("p", "", &["c"]);
    let decided = rack.decide();
    assert_eq!(
        decided.reasons["ns/p"].message,
        "claim ns/c of graphics devices is not of queue q: label it kai.scheduler/queue=q"
    );
    // A selector that some device has no answer for.
    let rack = Rack::new().node("a", "npu.example.com", 1);
    let rack = rack.claim("c", selected("device.attributes['odd'].x == 1", 1)).pod("p", "", &["c"]);
    let nodes = rack.decide().reasons["ns/p"].nodes.clone();
    assert_eq!(nodes["device selector without an answer (guard it with has() or `in`)"], 1);
}

#[test]
fn claims_made_from_a_template_are_alike_and_are_waited_for() {
    let spec = json!({"resourceClaims": [{"name": "npu", "resourceClaimTemplateName": "t"}]});
    let mut rack = Rack::new().node("a", "npu.example.com", 2);
    for name in ["p0", "p1", "p2"] {
        rack = rack.claim(&format!("{name}-npu"), selected("true", 1));
        rack = rack.pod_of(name, "", spec.clone(), json!({"cpu": "1"}), json!({}));
    }
    for (at, name) in ["p0", "p1"].iter().enumerate() {
        rack.document["pods"][at]["status"]["resourceClaimStatuses"] =
            json!([{"name": "npu", "resourceClaimName": format!("{name}-npu")}]);
    }
    let decided = rack.decide();
    assert_eq!(told(&decided), ["bind p0 a npu=r:dev-0", "bind p1 a npu=r:dev-1"]);
    assert_eq!(decided.reasons["ns/p2"].message, "claim npu is not made from its template yet");
}

#[test]
fn an_extended_resource_that_a_class_serves_is_given_as_devices() {
    let mut rack = Rack::new().bare_node("0").node("a", "npu.example.com", 3);
    for name in ["p0", "p1"] {
        rack = rack.pod_of(name, "", json!({}), json!({"example.com/npu": "2"}), json!({}));
    }
    let cycles = rack.cycles(2);
    let decided = &cycles[0];
    assert_eq!(told(decided), ["bind p0 a"]);
    let given = serde_json::to_value(&decided.decisions[0].extended_claim).unwrap();
    assert_eq!(
        given["deviceRequests"],
        json!([{"name": "container-0-request-0", "deviceClassName": "npu", "count": 2}])
    );
    assert_eq!(
        given["containerMappings"],
        json!([{"containerName": "main", "resourceName": "example.com/npu", "requestName": "container-0-request-0"}])
    );
    let devices: Vec<_> = given["allocation"]["devices"]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["device"].clone())
        .collect();
    assert_eq!(devices, ["dev-0", "dev-1"]);
    assert_eq!(decided.reasons["ns/p1"].reason, Reason::NoRoom);
    assert_eq!(told(&cycles[1]), [""; 0]);
    // A node whose device plugin has the resource gives no devices one by one.
    let plugin = json!({"metadata": {"name": "0-plugin"}, "status": {"allocatable": {"cpu": "64", "memory": "1Gi", "pods": "9", "example.com/npu": "8"}}});
    let decided = rack.push("nodes", plugin).decide();
    let there = decided.decisions.iter().find(|it| it.node == "0-plugin").unwrap();
    assert_eq!(there.extended_claim, None);
}
