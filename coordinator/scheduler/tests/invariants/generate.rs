//! Random clusters. The same seed, the same cluster.

use serde_json::{Value, json};

/// A source of numbers that depend on nothing but the seed (splitmix64).
pub struct Source(u64);

// === impl Source ===

impl Source {
    /// Of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// So often in a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// In another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// A cluster on its way.
struct Cluster {
    source: Source,
    nodes: Vec<Value>,
    free: Vec<usize>,
    queues: Vec<Value>,
    leaves: Vec<String>,
    groups: Vec<Value>,
    pods: Vec<Value>,
    racks: bool,
}

/// A cluster of a seed, as a document.
pub fn cluster(seed: u64) -> Value {
    let mut source = Source::new(seed);
    let racks = source.percent(40);
    let mut cluster = Cluster {
        source,
        nodes: Vec::new(),
        free: Vec::new(),
        queues: Vec::new(),
        leaves: Vec::new(),
        groups: Vec::new(),
        pods: Vec::new(),
        racks,
    };
    cluster.nodes();
    cluster.queues();
    cluster.running();
    cluster.pending();
    let levels =
        ["zone", "rack", "kubernetes.io/hostname"].map(|label| json!({"nodeLabel": label}));
    let classes = [("train", 50), ("build", 100), ("inference", 125)];
    let classes = classes.map(|(name, value)| json!({"metadata": {"name": name}, "value": value}));
    json!({
        "now": "2026-01-01T00:00:00Z", "nodes": cluster.nodes, "queues": cluster.queues, "podGroups": cluster.groups,
        "pods": cluster.pods, "topologies": [{"metadata": {"name": "t"}, "spec": {"levels": levels}}],
        "priorityClasses": classes,
    })
}

// === impl Cluster ===

impl Cluster {
    fn nodes(&mut self) {
        for at in 0..1 + self.source.below(10) {
            let name = format!("n{at:02}");
            let devices = self.source.one(&[0, 2, 4, 8, 8]);
            let mut labels = json!({"kubernetes.io/hostname": name, "nvidia.com/gpu.count": devices.to_string(),
                "nvidia.com/gpu.memory": self.source.one(&["80000", "80000", "40000"])});
            if self.racks && !self.source.percent(5) {
                labels["zone"] = json!(format!("z{}", at / 4));
                labels["rack"] = json!(format!("r{}", at / 2));
            }
            let ready = if self.source.percent(5) { "False" } else { "True" };
            let has = json!({"cpu": self.source.one(&["8", "64"]), "memory": "256Gi", "pods": self.source.one(&["5", "110"]),
                "nvidia.com/gpu": devices.to_string()});
            self.nodes.push(json!({"metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"unschedulable": self.source.percent(3)},
                "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": ready}]}}));
            self.free.push(devices);
        }
    }

    fn queues(&mut self) {
        let mut layer = vec![String::new()];
        for depth in 0..1 + self.source.below(3) {
            let mut next = Vec::new();
            for parent in &layer {
                for at in 0..1 + self.source.below(3) {
                    let name = if depth == 0 { format!("q{at}") } else { format!("{parent}-{at}") };
                    let quota = |source: &mut Source, scale: i64| {
                        json!({"quota": source.one(&[-1, 0, scale, 2 * scale]), "limit": source.one(&[-1, -1, -1, 4 * scale]),
                            "overQuotaWeight": source.one(&[0, 1, 1, 2])})
                    };
                    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
                    let cpu = if self.source.percent(20) {
                        quota(&mut self.source, 4000)
                    } else {
                        free.clone()
                    };
                    self.queues.push(json!({
                        "metadata": {"name": name, "uid": name, "creationTimestamp": instant(200_000 - self.queues.len() as i64)},
                        "spec": {"parentQueue": parent, "priority": self.source.one(&[100, 100, 50, 200]),
                            "resources": {"gpu": quota(&mut self.source, 4), "cpu": cpu, "memory": free}}}));
                    next.push(name);
                }
            }
            layer = next;
        }
        self.leaves = layer;
    }

    fn running(&mut self) {
        for job in 0..self.source.below(12) {
            let name = format!("run{job:02}");
            let devices = self.source.one(&[1, 1, 2, 4]);
            let mut places = Vec::new();
            for _ in 0..self.source.one(&[1, 1, 2, 4]) {
                let fits: Vec<usize> =
                    (0..self.free.len()).filter(|&at| self.free[at] >= devices).collect();
                if fits.is_empty() {
                    break;
                }
                let at = self.source.one(&fits);
                self.free[at] -= devices;
                places.push(at);
            }
            if places.is_empty() {
                continue;
            }
            let least = places.len() - usize::from(self.source.percent(30)).min(places.len() - 1);
            self.group(&name, least, None, Value::Null, true);
            for (at, node) in places.into_iter().enumerate() {
                let asks =
                    json!({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": devices.to_string()});
                self.pod(&format!("{name}-{at}"), &name, asks, Value::Null, Some(node), "");
            }
        }
    }

    fn pending(&mut self) {
        for job in 0..1 + self.source.below(14) {
            let name = format!("job{job:02}");
            let size = self.source.one(&[1, 1, 2, 3, 4, 8]);
            let split = size >= 2 && self.source.percent(20);
            let least = if self.source.percent(25) { 1 + self.source.below(size) } else { size };
            let parts = split.then(|| {
                let half = size / 2;
                let mut parts = vec![
                    json!({"name": "a", "minMember": half}),
                    json!({"name": "b", "minMember": size - half}),
                ];
                if self.racks && self.source.percent(40) {
                    parts[0]["topologyConstraint"] =
                        json!({"topology": "t", "requiredTopologyLevel": "rack"});
                }
                parts
            });
            let near = if self.racks && self.source.percent(40) {
                let key = self.source.one(&["requiredTopologyLevel", "preferredTopologyLevel"]);
                json!({"topology": "t", key: self.source.one(&["zone", "rack"])})
            } else {
                Value::Null
            };
            self.group(&name, least, parts, near, false);
            let mut asks = json!({"cpu": self.source.one(&["100m", "1", "4"]), "memory": "1Gi"});
            let mut notes = Value::Null;
            match self.source.below(10) {
                0 => {}
                1 | 2 => notes = json!({"gpu-fraction": self.source.one(&["0.25", "0.5", "0.7"])}),
                3 => notes = json!({"gpu-memory": self.source.one(&["10000", "30000"])}),
                _ => asks["nvidia.com/gpu"] = json!(self.source.one(&["1", "1", "2", "4", "8"])),
            }
            for at in 0..size {
                let part = match split {
                    true if at < size / 2 => "a",
                    true => "b",
                    false => "",
                };
                self.pod(&format!("{name}-{at}"), &name, asks.clone(), notes.clone(), None, part);
            }
        }
    }

    fn group(
        &mut self,
        name: &str,
        least: usize,
        parts: Option<Vec<Value>>,
        near: Value,
        running: bool,
    ) {
        let class = self.source.one(&["train", "train", "build", "inference"]);
        let mut spec = json!({"queue": self.source.one(&self.leaves), "minMember": least, "priorityClassName": class});
        if let Some(parts) = parts {
            spec["subGroups"] = json!(parts);
        }
        if near != Value::Null {
            spec["topologyConstraint"] = near;
        }
        let notes = if running {
            json!({"kai.scheduler/last-start-timestamp": instant(3600)})
        } else {
            Value::Null
        };
        let made = instant(100_000 - 60 * self.groups.len() as i64);
        self.groups.push(json!({"metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": made,
            "annotations": notes}, "spec": spec}));
    }

    fn pod(
        &mut self,
        name: &str,
        group: &str,
        asks: Value,
        mut notes: Value,
        node: Option<usize>,
        part: &str,
    ) {
        notes["pod-group-name"] = json!(group);
        let labels =
            if part.is_empty() { json!({}) } else { json!({"kai.scheduler/subgroup-name": part}) };
        let mut spec = json!({"schedulerName": "kai-scheduler", "containers": [{"name": "main", "resources": {"requests": asks}}]});
        if let Some(node) = node {
            spec["nodeName"] = self.nodes[node]["metadata"]["name"].clone();
        }
        self.pods.push(json!({
            "metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": instant(50_000), "annotations": notes, "labels": labels},
            "spec": spec, "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}}));
    }
}

/// So many seconds before the cluster's clock.
fn instant(ago: i64) -> String {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    (now - jiff::SignedDuration::from_secs(ago)).to_string()
}
