//! What a pod asks for, as Kubernetes counts: containers together with sidecars, or the most that starting up takes.

use muster_kube::Quantity;
use serde_json::{Map, Value};

use crate::resources::{Resources, amounts};

/// What a pod with this spec asks for. Limits do not count as requests, and nothing is added that is not written down.
pub fn of_pod(spec: &Map<String, Value>) -> Resources {
    let mut running = Resources::new();
    for container in list(spec, "containers") {
        add(&mut running, &requests(container));
    }
    let (mut sidecars, mut starting) = (Resources::new(), Resources::new());
    for container in list(spec, "initContainers") {
        let own = requests(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            most(&mut starting, &sidecars);
        } else {
            let mut now = own;
            add(&mut now, &sidecars);
            most(&mut starting, &now);
        }
    }
    most(&mut running, &starting);
    let of_pod = amounts(spec.get("resources").and_then(|resources| resources.get("requests")));
    let counted =
        |name: &String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    running.extend(of_pod.into_iter().filter(|(name, _)| counted(name)));
    add(&mut running, &amounts(spec.get("overhead")));
    running
}

/// So many pods.
pub fn times(requests: &Resources, count: i32) -> Resources {
    requests.iter().map(|(name, amount)| (name.clone(), amount.times(i64::from(count)))).collect()
}

/// Adds amounts to others.
pub fn add(to: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |now: &Quantity| *now + *amount);
        to.insert(name.clone(), sum);
    }
}

fn most(of: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        let more = of.get(name).map_or(*amount, |now: &Quantity| now.or_more(*amount));
        of.insert(name.clone(), more);
    }
}

fn requests(container: &Value) -> Resources {
    amounts(container.get("resources").and_then(|resources| resources.get("requests")))
}

fn list<'a>(spec: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    spec.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(spec: Value) -> Value {
        crate::resources::written(&of_pod(spec.as_object().unwrap()))
    }

    fn asks(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn starting_up_counts_where_it_takes_more() {
        let spec = json!({"containers": [asks("500m"), asks("250m")], "initContainers": [asks("3")],
            "overhead": {"cpu": "50m"}});
        assert_eq!(shown(spec), json!({"cpu": "3050m"}));
    }

    #[test]
    fn sidecars_run_beside_all_that_comes_after_them() {
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = json!("Always");
        let spec =
            json!({"containers": [asks("1")], "initContainers": [sidecar.clone(), asks("2")]});
        assert_eq!(shown(spec), json!({"cpu": "3"}));
        let spec = json!({"containers": [asks("4")], "initContainers": [asks("2"), sidecar]});
        assert_eq!(shown(spec), json!({"cpu": "5"}));
    }

    #[test]
    fn what_the_pod_asks_for_as_a_whole_replaces_the_sum() {
        let spec = json!({"containers": [asks("4")], "resources": {"requests": {"cpu": "2"}}});
        assert_eq!(shown(spec), json!({"cpu": "2"}));
        assert_eq!(shown(json!({"containers": [{"name": "a"}]})), json!({}));
    }
}
