use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;

fn live() -> Live {
    let mut base = Config::default();
    base.params.scheduler_name = "muster-scheduler".to_owned();
    base.params.groups_by_namespace = true;
    Live::new(base, Source::Defaults, DEFAULT_SHARD)
}

fn shard(name: &str, generation: i64, spec: Value) -> Written {
    Written { name: name.to_owned(), generation, spec }
}

fn one<'a>(all: &'a [Condition], kind: &str) -> &'a Condition {
    all.iter().find(|one| one.kind == kind).unwrap()
}

#[test]
fn the_served_shard_counts_while_it_is_there_and_the_flags_count_again_without_it() {
    let mut live = live();
    assert_eq!(live.resolve(&[], None, None).in_force.source, Source::Defaults);
    let spread = shard("default", 3, json!({"placementStrategy": {"gpu": "spread"}}));
    let others = shard("pool-a", 1, json!({"placementStrategy": {"gpu": "binpack"}}));
    let resolved = live.resolve(&[others, spread], None, None);
    let InForce { config, source, problem, .. } = &resolved.in_force;
    assert_eq!((source, problem), (&Source::Shard("default".to_owned(), 3), &None));
    assert!(config.has("gpuspread") && !config.has("gpupack"));
    assert_eq!(config.params.scheduler_name, "muster-scheduler", "fixed at the start");
    assert!(config.params.groups_by_namespace, "fixed at the start");
    let [(_, unserved), (_, served)] = &resolved.shards[..] else { panic!("two shards") };
    assert!(served.iter().all(|one| one.status && one.generation == 3) && served.len() == 4);
    let available = one(unserved, "Available");
    assert_eq!((available.status, available.reason), (false, "not_served"));
    assert!(available.message.contains("--scheduler-shard pool-a"), "{}", available.message);
    assert_eq!(live.resolve(&[], None, None).in_force.source, Source::Defaults);
}

#[test]
fn a_shard_that_cannot_be_used_leaves_the_last_good_one_in_force_and_says_why() {
    let mut live = live();
    live.resolve(&[shard("default", 1, json!({"kValue": 2.0}))], None, None);
    let bad = shard("default", 2, json!({"placementStrategy": {"cpu": "heap"}, "kValue": 5.0}));
    let resolved = live.resolve(std::slice::from_ref(&bad), None, None);
    let in_force = &resolved.in_force;
    assert_eq!(in_force.source, Source::Shard("default".to_owned(), 1));
    assert_eq!(in_force.config.arguments("proportion").unwrap()["kValue"], "2");
    let deployed = one(&resolved.shards[0].1, "Deployed");
    assert_eq!((deployed.status, deployed.reason, deployed.generation), (false, "invalid_spec", 2));
    for word in [
        "SchedulingShard default",
        "spec.placementStrategy.cpu",
        "use binpack or spread",
        "generation 1",
    ] {
        assert!(deployed.message.contains(word), "{}", deployed.message);
    }
    assert!(one(&resolved.shards[0].1, "Available").status, "pods are placed all the same");
    let unknown = shard("default", 3, json!({"queueDepthPerAction": {"allocat": 5}}));
    let deployed = live.resolve(&[unknown], None, None).shards.remove(0).1.remove(1);
    assert!(deployed.message.contains("spec.queueDepthPerAction"), "{}", deployed.message);
    assert!(!deployed.message.contains("line 0"), "{}", deployed.message);
    let known = shard("default", 4, json!({"plugins": {"tetris": {"enabled": true}}}));
    let deployed = live.resolve(&[known], None, None).shards.remove(0).1.remove(1);
    assert!(deployed.status && deployed.message.contains("`tetris`"), "{}", deployed.message);
}

#[test]
fn the_config_switches_placing_and_grouping_off_and_says_so() {
    let mut live = live();
    let spec = |on: bool| json!({"scheduler": {"service": {"enabled": on}}, "podGrouper": {"service": {"enabled": on}}});
    let off = live.resolve(&[], Some(&shard(CONFIG_NAME, 7, spec(false))), None);
    assert_eq!(off.in_force.switches.paused, Some("spec.scheduler.service.enabled"));
    assert!(!off.in_force.switches.grouping);
    let conditions = off.config.unwrap();
    assert!(conditions.iter().all(|one| one.status && one.generation == 7));
    assert!(one(&conditions, "Available").message.contains("spec.scheduler.service.enabled"));
    let on = live.resolve(&[], Some(&shard(CONFIG_NAME, 8, spec(true))), None);
    assert_eq!(on.in_force.switches, Switches::default());
    let binder = json!({"binder": {"service": {"enabled": false}}});
    assert_eq!(Switches::read(&binder).paused, Some("spec.binder.service.enabled"));
    let apart = json!({"podGrouper": {"args": {"gangScheduleKnative": false}}});
    assert!(!Switches::read(&apart).knative_gang && Switches::default().knative_gang);
    let label = json!({"global": {"nodePoolLabelKey": "pool"}});
    let own =
        live.resolve(&[shard("default", 1, json!({}))], Some(&shard(CONFIG_NAME, 9, label)), None);
    assert_eq!(own.in_force.config.params.node_pool.key, "pool");
}

#[test]
fn the_config_names_the_label_of_queues_and_is_told_what_is_not_obeyed() {
    let mut live = live().for_schedulers(vec!["muster-scheduler".into(), "kai-scheduler".into()]);
    let resolve = |live: &mut Live, spec: Value| {
        let resolved = live.resolve(&[], Some(&shard(CONFIG_NAME, 2, spec)), None);
        let deployed = one(resolved.config.as_ref().unwrap(), "Deployed").clone();
        (resolved.in_force, deployed)
    };
    let global = json!({"queueLabelKey": "example.com/queue", "schedulerName": "kai-scheduler"});
    let (in_force, deployed) = resolve(&mut live, json!({ "global": global }));
    assert_eq!(in_force.switches.queue_label(), Some("example.com/queue"));
    assert_eq!((deployed.status, in_force.ignored), (true, None));
    let odd = json!({"queueLabelKey": "no label!", "schedulerName": "other"});
    let (in_force, deployed) = resolve(&mut live, json!({ "global": odd }));
    assert_eq!(in_force.switches.queue_label(), None, "the flag's stays");
    assert_eq!((deployed.status, deployed.reason), (false, "invalid_spec"));
    for word in ["schedulerName", "--scheduler-name other", "queueLabelKey", "`no label!`"] {
        assert!(deployed.message.contains(word), "{}", deployed.message);
    }
    let (in_force, deployed) =
        resolve(&mut live, json!({"admission": {"service": {"enabled": false}}}));
    assert!(!in_force.switches.admission && deployed.status);
    let field = "spec.admission.service.enabled is false";
    assert!(deployed.message.contains(field), "{}", deployed.message);
}

#[test]
fn credentials_go_to_the_server_that_they_were_written_beside_and_to_no_other() {
    let mut live = live();
    let mut secret = |usage: Value, prometheus: Value| {
        let asks = shard("default", 1, json!({ "usageDBConfig": usage }));
        let connection = json!({"url": "https://p:9090", "authSecretName": "tokens"});
        let spec = json!({"global": {"connection": connection}, "prometheus": prometheus});
        let resolved = live.resolve(&[asks], Some(&shard(CONFIG_NAME, 1, spec)), None);
        resolved.in_force.config.usage.unwrap().auth_secret
    };
    let plain = json!({"clientType": "prometheus"});
    assert_eq!(secret(plain.clone(), json!({})).as_deref(), Some("tokens"));
    let external = json!({"externalPrometheusUrl": "http://outside:9090"});
    assert_eq!(secret(plain.clone(), external), None, "an address of its own");
    let empty = json!({"externalPrometheusUrl": ""});
    assert_eq!(secret(plain.clone(), empty).as_deref(), Some("tokens"));
    assert_eq!(secret(plain, json!({"enabled": true})), None, "KAI's own asks for none");
    let mut own = json!({"clientType": "prometheus", "connectionString": "https://other"});
    assert_eq!(secret(own.clone(), json!({})), None, "another server");
    own["usageParams"] = json!({"extraParams": {"authSecretName": "others"}});
    assert_eq!(secret(own, json!({})).as_deref(), Some("others"));
}

#[test]
fn conditions_keep_their_time_while_their_status_stays_and_those_of_others_stay() {
    let mut live = live();
    let first = live.resolve(&[shard("default", 1, json!({}))], None, None).shards.remove(0).1;
    let others = json!([{"type": "Mine", "status": "True"}]);
    let written = Value::from(merge(&others, &first, "t1").unwrap());
    assert_eq!(written.as_array().unwrap().len(), 5);
    assert_eq!(merge(&written, &first, "t2"), None, "nothing has changed");
    let next = live.resolve(&[shard("default", 2, json!({}))], None, None).shards.remove(0).1;
    let written = Value::from(merge(&written, &next, "t2").unwrap());
    assert!(written[1]["lastTransitionTime"] == "t1" && written[1]["observedGeneration"] == 2);
    let unserved = live.resolve(&[shard("pool", 2, json!({}))], None, None).shards.remove(0).1;
    assert_eq!(merge(&written, &unserved, "t3"), None, "somebody serves it");
}

#[test]
fn a_shard_that_needs_prometheus_says_when_nobody_names_it_and_when_it_does_not_answer() {
    let mut live = live();
    let asks = shard("default", 1, json!({"usageDBConfig": {"clientType": "prometheus"}}));
    let deployed =
        live.resolve(std::slice::from_ref(&asks), None, None).shards.remove(0).1.remove(1);
    assert!(!deployed.status, "nobody says where");
    assert!(
        deployed.message.contains("spec.usageDBConfig.connectionString"),
        "{}",
        deployed.message
    );
    let kai = shard(CONFIG_NAME, 1, json!({"global": {"connection": {"url": "http://p:9090"}}}));
    let resolved = live.resolve(std::slice::from_ref(&asks), Some(&kai), Some("no answer"));
    let at = resolved.in_force.config.usage.map(|usage| usage.at);
    assert_eq!(at, Some(Connection::Url("http://p:9090".to_owned())));
    let dependencies = one(&resolved.shards[0].1, "DependenciesFulfilled");
    assert_eq!((dependencies.status, dependencies.reason), (false, "prometheus_connection_failed"));
    assert_eq!(dependencies.message, "no answer");
}

#[test]
fn conditions_that_somebody_else_keeps_writing_are_left_to_them_for_longer_and_longer() {
    let ours = live().resolve(&[shard("default", 1, json!({}))], None, None).shards.remove(0).1;
    let at = |seconds: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let mut contest = Contest::default();
    let mut version = 0;
    // What is written is overwritten at once, as often as it is written.
    let mut fight = |contest: &mut Contest, now: i64| {
        let turn = contest.turn(&ours, &version.to_string(), at(now));
        if turn == Turn::Write {
            contest.wrote(&ours, &version.to_string());
            version += 2;
        }
        turn
    };
    let wait = |seconds: i64| Turn::Wait(SignedDuration::from_secs(seconds));
    assert_eq!([0, 1, 1].map(|now| fight(&mut contest, now)), [Turn::Write; 3]);
    assert_eq!(fight(&mut contest, 2), Turn::Contested(SignedDuration::from_secs(60)));
    assert_eq!([2, 32, 62].map(|now| fight(&mut contest, now)), [wait(60), wait(30), Turn::Write]);
    assert_eq!(fight(&mut contest, 63), Turn::Contested(SignedDuration::from_secs(120)));
    assert_eq!(fight(&mut contest, 183), Turn::Write);
    for _ in 0..20 {
        if let Turn::Contested(wait) = fight(&mut contest, 184) {
            assert!(wait <= SignedDuration::from_secs(600));
        }
    }
    // Much later it counts anew.
    assert_eq!([9000, 9001].map(|now| fight(&mut contest, now)), [Turn::Write; 2]);
}

#[test]
fn a_write_that_the_watch_has_not_shown_and_a_change_of_ours_are_no_contest() {
    let of = |generation| {
        live().resolve(&[shard("default", generation, json!({}))], None, None).shards.remove(0).1
    };
    let mut contest = Contest::default();
    for generation in 1..20 {
        let ours = of(generation);
        let version = generation.to_string();
        assert_eq!(contest.turn(&ours, &version, Timestamp::UNIX_EPOCH), Turn::Write);
        contest.wrote(&ours, &version);
        assert_eq!(contest.turn(&ours, &version, Timestamp::UNIX_EPOCH), Turn::Write);
    }
}
