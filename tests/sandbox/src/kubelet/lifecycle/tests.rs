use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + second).unwrap()
}

fn pod(policy: &str, annotations: Value, init: Value, main: &[&str]) -> Value {
    let main: Vec<Value> = main.iter().map(|n| json!({ "name": n, "image": "r/i:1" })).collect();
    json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "annotations": annotations },
        "spec": { "restartPolicy": policy, "initContainers": init, "containers": main },
    })
}

struct Life {
    pod: Value,
    plan: PodPlan,
    run: PodRun,
    status: Value,
    effects: Vec<Effect>,
}

impl Life {
    fn new(pod: Value) -> Self {
        Self::outside(pod, &[])
    }

    fn outside(pod: Value, outside: &[&str]) -> Self {
        let plan = PodPlan::read(&pod, |name| outside.contains(&name));
        let run = PodRun::new(&plan, at(0));
        let mut life = Self { pod, plan, run, status: Value::Null, effects: vec![] };
        life.go(0, Input::Tick);
        life
    }

    fn prepared(pod: Value) -> Self {
        let mut life = Self::new(pod);
        life.go(0, Input::Prepared { ip: "10.0.0.2".into() });
        life
    }

    fn go(&mut self, second: i64, input: Input) -> &mut Self {
        self.effects = self.run.step(&self.plan, input, at(second));
        self.status =
            status::write(&self.pod, &self.plan, &self.run, "10.254.0.1", &self.status, at(second));
        self
    }

    fn phase(&self) -> &str {
        self.status["phase"].as_str().unwrap()
    }

    fn condition(&self, kind: &str) -> (String, String) {
        let all = self.status["conditions"].as_array().unwrap();
        let found = all.iter().find(|c| c["type"] == kind).unwrap();
        (text(found, "status").to_owned(), text(found, "reason").to_owned())
    }

    /// State of a container in one word.
    fn state(&self, name: &str) -> String {
        let all = list(&self.status, "initContainerStatuses").iter();
        let found = all
            .chain(list(&self.status, "containerStatuses"))
            .find(|s| text(s, "name") == name)
            .unwrap();
        let (state, detail) = found["state"].as_object().unwrap().iter().next().unwrap();
        match state.as_str() {
            "waiting" => text(detail, "reason").to_owned(),
            "terminated" => format!("{} {}", text(detail, "reason"), detail["exitCode"]),
            other => other.to_owned(),
        }
    }
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.into(), b.into())
}

#[test]
fn a_pod_waits_for_its_volumes_then_runs_and_is_ready() {
    let mut life = Life::new(pod("Always", json!({}), json!([]), &["c"]));
    assert_eq!((life.phase(), life.state("c").as_str()), ("Pending", "ContainerCreating"));
    assert_eq!(life.condition("Ready"), pair("False", "ContainersNotReady"));
    assert_eq!(life.condition("Initialized"), pair("True", ""));
    assert_eq!(life.condition("PodReadyToStartContainers"), pair("False", ""));
    assert!(life.status.get("podIP").is_none());
    life.go(3, Input::Prepared { ip: "10.0.0.2".into() });
    assert_eq!((life.phase(), life.state("c").as_str()), ("Running", "running"));
    assert_eq!(life.status["podIP"], "10.0.0.2");
    assert_eq!(life.status["startTime"], "2026-01-02T03:04:05Z");
    let container = &life.status["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["started"]), (&json!(true), &json!(true)));
    assert_eq!(container["state"]["running"]["startedAt"], "2026-01-02T03:04:08Z");
    assert!(text(container, "containerID").starts_with("containerd://"));
    assert!(text(container, "imageID").starts_with("r/i@sha256:"));
    assert_eq!(life.condition("Ready"), pair("True", ""));
    let before = life.status["conditions"].clone();
    life.go(9, Input::Tick);
    for (then, now) in before.as_array().unwrap().iter().zip(list(&life.status, "conditions")) {
        assert_eq!(then["lastTransitionTime"], now["lastTransitionTime"]);
    }
}

#[test]
fn the_end_of_a_pod_follows_from_policy_and_exit_code() {
    let run = "sandbox.muster.dev/run-seconds";
    let code = "sandbox.muster.dev/exit-code";
    for (policy, exit, phase, state, restarts) in [
        ("Never", "0", "Succeeded", "Completed 0", 0),
        ("Never", "3", "Failed", "Error 3", 0),
        ("OnFailure", "0", "Succeeded", "Completed 0", 0),
        ("OnFailure", "3", "Running", "running", 1),
        ("Always", "0", "Running", "running", 1),
    ] {
        let notes = json!({ run: "5", code: exit });
        let mut life = Life::prepared(pod(policy, notes, json!([]), &["c"]));
        assert_eq!(life.run.next_time(&life.plan), Some(at(5)));
        life.go(5, Input::Tick);
        let found = (life.phase(), life.state("c"));
        assert_eq!(found, (phase, state.to_owned()), "{policy} {exit}");
        assert_eq!(life.status["containerStatuses"][0]["restartCount"], restarts);
        let ready = life.condition("Ready");
        match phase {
            "Succeeded" => assert_eq!(ready, pair("False", "PodCompleted")),
            "Failed" => assert_eq!(ready, pair("False", "PodFailed")),
            _ => assert_eq!(ready, pair("True", "")),
        }
    }
}

#[test]
fn restarts_come_at_once_then_after_ever_longer_back_offs() {
    let notes =
        json!({ "sandbox.muster.dev/run-seconds": "1", "sandbox.muster.dev/exit-code": "1" });
    let mut life = Life::prepared(pod("Always", notes, json!([]), &["c"]));
    let mut starts = vec![];
    for second in 1..200 {
        life.go(second, Input::Tick);
        if life.effects.iter().any(|e| matches!(e, Effect::Log { line, .. } if line == "started")) {
            starts.push(second);
        }
        if second == 3 {
            assert_eq!((life.phase(), life.state("c").as_str()), ("Running", "CrashLoopBackOff"));
            let status = &life.status["containerStatuses"][0];
            assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
            let message = text(&status["state"]["waiting"], "message");
            assert_eq!(message, "back-off 10s restarting failed container=c pod=u");
        }
    }
    // Each run lasts a second: at once, then 10, 20, 40 and 80 s after the end.
    assert_eq!(starts, [1, 12, 33, 74, 155]);
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_stay() {
    let init =
        json!([{ "name": "i1" }, { "name": "s", "restartPolicy": "Always" }, { "name": "i2" }]);
    let notes =
        json!({ "sandbox.muster.dev/start-seconds": "2", "sandbox.muster.dev/run-seconds": "10" });
    let mut life = Life::prepared(pod("Never", notes, init, &["c"]));
    for (second, states, phase) in [
        (
            0,
            ["PodInitializing", "PodInitializing", "PodInitializing", "PodInitializing"],
            "Pending",
        ),
        (2, ["Completed 0", "PodInitializing", "PodInitializing", "PodInitializing"], "Pending"),
        (4, ["Completed 0", "running", "PodInitializing", "PodInitializing"], "Pending"),
        (6, ["Completed 0", "running", "Completed 0", "ContainerCreating"], "Pending"),
        (8, ["Completed 0", "running", "Completed 0", "running"], "Running"),
        (18, ["Completed 0", "Error 143", "Completed 0", "Completed 0"], "Succeeded"),
    ] {
        life.go(second, Input::Tick);
        let found = ["i1", "s", "i2", "c"].map(|name| life.state(name));
        assert_eq!(found, states, "at {second}");
        assert_eq!(life.phase(), phase, "at {second}");
        match second {
            2 => {
                assert_eq!(life.condition("Initialized"), pair("False", "ContainersNotInitialized"))
            }
            8 => assert_eq!(life.condition("Initialized"), pair("True", "")),
            18 => assert_eq!(life.condition("Initialized"), pair("True", "PodCompleted")),
            _ => {}
        }
    }
}

#[test]
fn a_failed_init_container_fails_the_pod_or_is_tried_again() {
    let notes = json!({ "sandbox.muster.dev/fail-container": "i" });
    let init = json!([{ "name": "i" }]);
    let life = Life::prepared(pod("Never", notes.clone(), init.clone(), &["c"]));
    assert_eq!(
        (life.phase(), life.state("i"), life.state("c")),
        ("Failed", "Error 1".into(), "PodInitializing".into())
    );
    assert!(life.run.is_finished(&life.plan));
    let life = Life::prepared(pod("Always", notes, init, &["c"]));
    assert_eq!((life.phase(), life.state("i")), ("Pending", "CrashLoopBackOff".into()));
}

#[test]
fn a_deleted_pod_ends_its_containers_within_its_grace() {
    for (stop, grace, ends) in [("0", 30, 5), ("4", 30, 9), ("60", 30, 35), ("60", 0, 5)] {
        let notes = json!({ "sandbox.muster.dev/stop-seconds": stop });
        let mut life = Life::prepared(pod("Always", notes, json!([]), &["c"]));
        life.go(5, Input::End { grace: Duration::from_secs(grace), failure: None });
        if ends > 5 {
            assert!(!life.run.is_finished(&life.plan));
            assert_eq!(life.condition("Ready").0, "False");
            assert_eq!(life.run.next_time(&life.plan), Some(at(ends)));
            life.go(ends, Input::Tick);
        }
        assert!(life.run.is_finished(&life.plan), "{stop} {grace}");
        assert_eq!((life.phase(), life.state("c")), ("Failed", "Error 143".into()));
    }
}

#[test]
fn a_deleted_pod_runs_its_pre_stop_hooks_first() {
    let hooks = [
        (json!({"httpGet": {"path": "/wait-for-drain", "port": 8022}}), 6),
        (json!({"exec": {"command": ["drain"]}}), 6),
        (json!({"sleep": {"seconds": 3}}), 8),
        (json!({"sleep": {"seconds": 90}}), 35),
    ];
    for (hook, ends) in hooks {
        let mut pod = pod("Always", json!({}), json!([]), &["c"]);
        pod["spec"]["containers"][0]["lifecycle"] = json!({ "preStop": hook });
        let mut life = Life::prepared(pod);
        life.go(5, Input::End { grace: Duration::from_secs(30), failure: None });
        assert_eq!(life.run.next_time(&life.plan), Some(at(ends)), "{hook}");
    }
}

#[test]
fn a_pod_past_its_deadline_fails() {
    let mut pod = pod("Never", json!({}), json!([]), &["c"]);
    pod["spec"]["activeDeadlineSeconds"] = 7.into();
    let mut life = Life::prepared(pod);
    assert_eq!(life.run.next_time(&life.plan), Some(at(7)));
    life.go(7, Input::Tick);
    assert_eq!((life.phase(), &life.status["reason"]), ("Failed", &json!("DeadlineExceeded")));
}

#[test]
fn a_container_outside_is_started_stopped_and_ends_when_it_says_so() {
    let mut life = Life::outside(pod("Never", json!({}), json!([]), &["c"]), &["c"]);
    life.go(0, Input::Prepared { ip: "10.0.0.2".into() });
    assert_eq!(life.effects, [Effect::Start { container: "c".into(), attempt: 0 }]);
    life.go(5, Input::End { grace: Duration::from_secs(9), failure: None });
    assert_eq!(life.effects, [Effect::Stop { container: "c".into(), kill_at: at(14) }]);
    let exit = |attempt| Input::Exited { container: "c".into(), attempt, code: 0 };
    life.go(6, exit(7));
    assert!(!life.run.is_finished(&life.plan), "another attempt's end is not this one's");
    life.go(6, exit(0));
    assert_eq!(life.phase(), "Succeeded");
}

#[test]
fn job_pods_run_a_moment_and_others_for_ever() {
    let owner = |kind: &str| json!([{ "kind": kind, "name": "o", "uid": "x" }]);
    for (policy, kind, run) in
        [("Never", "Job", Some(1)), ("Always", "Job", None), ("Never", "X", None)]
    {
        let mut pod = pod(policy, json!({}), json!([]), &["c"]);
        pod["metadata"]["ownerReferences"] = owner(kind);
        let work = PodPlan::read(&pod, |_| false).containers[0].work;
        let expected = Work::Simulated { run: run.map(Duration::from_secs), code: 0 };
        assert_eq!(work, expected, "{policy} {kind}");
    }
}

#[test]
fn a_run_is_read_back_from_the_status() {
    let notes = json!({ "sandbox.muster.dev/run-seconds": "100" });
    let mut life = Life::prepared(pod("Never", notes, json!([{ "name": "i" }]), &["c"]));
    life.go(3, Input::Tick);
    life.pod["status"] = life.status.clone();
    let resumed = PodRun::resume(&life.pod, &life.plan, |_| false, at(50)).unwrap();
    assert_eq!(resumed, life.run);
    let outside = PodPlan::read(&life.pod, |name| name == "c");
    let lost = PodRun::resume(&life.pod, &outside, |_| false, at(50)).unwrap();
    assert!(matches!(&lost.containers[1].state, State::Ended(e) if e.code == 137));
    let fresh = pod("Never", json!({}), json!([]), &["c"]);
    assert_eq!(PodRun::resume(&fresh, &life.plan, |_| true, at(0)), None);
}

#[test]
fn a_reason_that_no_longer_holds_is_taken_back() {
    let mut life = Life::new(pod("Always", json!({}), json!([]), &["c"]));
    life.go(1, Input::Prepared { ip: "10.0.0.2".into() });
    let all = life.status["conditions"].as_array().unwrap();
    let ready = all.iter().find(|c| c["type"] == "Ready").unwrap();
    assert_eq!((&ready["reason"], &ready["message"]), (&Value::Null, &Value::Null));
    assert!(ready.as_object().unwrap().contains_key("reason"), "the merge needs the null");
}

#[test]
fn a_container_without_image_waits_and_asks_again_ever_later() {
    let pod = pod("Always", json!({}), json!([]), &["c"]);
    let mut life = Life::new(pod.clone());
    life.plan = PodPlan::read(&pod, |_| false).without_images(&pod, |image| image == "r/i:1");
    life.go(0, Input::Prepared { ip: "10.0.0.2".into() });
    let waiting = |life: &Life| life.status["containerStatuses"][0]["state"]["waiting"].clone();
    let error = "failed to pull and unpack image \"r/i:1\": not found";
    assert_eq!(waiting(&life), json!({ "reason": "ErrImagePull", "message": error }));
    assert_eq!((life.phase(), life.run.next_time(&life.plan)), ("Pending", Some(at(1))));
    life.go(1, Input::Tick);
    let message = format!("Back-off pulling image \"r/i:1\": ErrImagePull: {error}");
    assert_eq!(waiting(&life), json!({ "reason": "ImagePullBackOff", "message": message }));
    for (asked, paused, next) in [(11, 12, 32), (32, 33, 73)] {
        life.go(asked - 1, Input::Tick);
        assert_eq!(life.run.next_time(&life.plan), Some(at(asked)));
        assert_eq!(waiting(life.go(asked, Input::Tick))["reason"], "ErrImagePull");
        assert_eq!(waiting(life.go(paused, Input::Tick))["reason"], "ImagePullBackOff");
        assert_eq!(life.run.next_time(&life.plan), Some(at(next)));
    }
    assert_eq!(life.status["containerStatuses"][0]["restartCount"], 0);
    life.go(40, Input::End { grace: Duration::from_secs(30), failure: None });
    assert!(life.run.is_finished(&life.plan), "nothing runs that would have to end");
}

#[test]
fn a_command_says_how_long_a_container_runs_unless_the_pod_does() {
    let of_job = |command: Value, annotations: Value| {
        let mut pod = pod("Never", annotations, json!([{ "name": "i" }]), &["c"]);
        pod["metadata"]["ownerReferences"] = json!([{ "kind": "Job", "name": "o", "uid": "x" }]);
        pod["spec"]["initContainers"][0]["command"] = command.clone();
        pod["spec"]["containers"][0]["command"] = command;
        PodPlan::read(&pod, |_| false).containers.into_iter().map(|c| c.work).collect::<Vec<_>>()
    };
    let simulated = |seconds: Option<u64>, code: i32| Work::Simulated {
        run: seconds.map(Duration::from_secs),
        code,
    };
    let run = "sandbox.muster.dev/run-seconds";
    for (command, annotations, init, main) in [
        (json!(["sleep", "30"]), json!({}), simulated(Some(30), 0), simulated(Some(30), 0)),
        (json!(["sleep", "infinity"]), json!({}), simulated(None, 0), simulated(None, 0)),
        (json!(["false"]), json!({}), simulated(Some(0), 1), simulated(Some(0), 1)),
        (
            json!(["sleep", "30"]),
            json!({ run: "5" }),
            simulated(Some(30), 0),
            simulated(Some(5), 0),
        ),
        (json!(["train"]), json!({}), simulated(Some(0), 0), simulated(Some(1), 0)),
    ] {
        assert_eq!(of_job(command.clone(), annotations), [init, main], "{command}");
    }
}
