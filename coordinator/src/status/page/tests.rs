use std::sync::Arc;

use super::*;
use crate::workloads::modelserving::view::ServingStatus;
use muster_scheduling::status_view::Configuration;

fn page(servings: Vec<ServingStatus>) -> String {
    render(&snapshot(servings))
}

fn snapshot(servings: Vec<ServingStatus>) -> Snapshot {
    Snapshot {
        identity: "c".to_owned(),
        version: "1",
        started: jiff::Timestamp::UNIX_EPOCH,
        epoch: Some(1),
        leader: None,
        ready: true,
        groups: Vec::new(),
        servings: servings.into_iter().map(Arc::new).collect(),
        jobs: Vec::new(),
        scheduler: None,
        nodes: Vec::new(),
    }
}

fn serving(name: &str) -> ServingStatus {
    ServingStatus {
        api_version: "workload.kthena.io/v1alpha1",
        namespace: "serve".to_owned(),
        name: name.to_owned(),
        groups: 1,
        ready_groups: 1,
        pods: 4,
        rank_groups: 2,
        tables: 2,
        trouble: None,
    }
}

#[test]
fn each_model_serving_has_a_row_and_trouble_is_told() {
    let waits = ServingStatus { tables: 1, ready_groups: 0, ..serving("waits") };
    let lost = ServingStatus {
        rank_groups: 0,
        trouble: Some("there is no template <x>".to_owned()),
        ..serving("lost")
    };
    let page = page(vec![serving("good"), waits, lost]);
    let shape = "<td>workload.kthena.io/v1alpha1";
    for row in [
        format!(
            "serve/good{shape}<td>1 of 1<td>4<td>2 of 2<td><span class=\"good\">ready</span> <tr>"
        ),
        format!(
            "serve/waits{shape}<td>0 of 1<td>4<td>1 of 2<td><span class=\"odd\">on its way</span>"
        ),
        format!(
            "serve/lost{shape}<td>1 of 1<td>4<td>-<td><span class=\"bad\">trouble</span> there is no template &lt;x&gt;"
        ),
    ] {
        assert!(page.contains(&row), "{row}\n{page}");
    }
}

#[test]
fn the_page_ends_after_two_hundred_model_servings() {
    let servings = (0..250).map(|number| serving(&format!("s{number:03}"))).collect();
    let page = page(servings);
    assert!(page.contains("serve/s199<td>") && !page.contains("serve/s200<td>"));
    assert!(page.contains("and 50 more, see JSON"), "{page}");
    assert!(!self::page(Vec::new()).contains("ModelServings"));
}

#[test]
fn the_page_says_which_configuration_the_scheduler_obeys() {
    let mut now = snapshot(Vec::new());
    now.scheduler = Some(Configuration {
        source: "SchedulingShard <default>, generation 3".to_owned(),
        paused: Some("spec.scheduler.service.enabled"),
        problem: Some("spec.kValue: odd".to_owned()),
        ignored: Some("spec.global.schedulerName: other".to_owned()),
        actions: Vec::new(),
        plugins: Vec::new(),
    });
    let page = render(&now);
    for word in [
        "SchedulingShard &lt;default&gt;, generation 3",
        "paused",
        "spec.kValue: odd",
        "spec.global.schedulerName",
    ] {
        assert!(page.contains(word), "{word}\n{page}");
    }
}
