//! The machine as a table: in which phase, what happens, which phase then, and what is to be done.

use k8s_openapi::api::core::v1::Pod;
use muster_proto::delivery::Digest;
use serde_json::json;

use super::super::compose::{ComposeError, Composed};
use super::super::member::GroupKey;
use super::super::phase::MadeTable;
use super::super::readiness::Readiness;
use super::super::task::TaskResult;
use super::*;
use muster_runtime::writer::WriteError;

const START: i64 = 1_800_000_000;

/// Something that happens to a group.
enum Event {
    Reconcile,
    Task(Box<TaskResult>),
    Sent(&'static [&'static str]),
    PodCame(&'static str),
    PodGone(&'static str),
    DeviceGone(&'static str),
    Acknowledged(&'static str),
    RecordDeleted,
    Later(i64),
}

/// A group of two pods, its clock, and what it has written.
struct Play {
    group: RankGroup,
    template: Template,
    now: Moment,
    writes: u64,
}

fn template() -> Template {
    let source = json!({"metadata": {"name": "t"}, "data": {"ranktable-template": "{{.ServerCount}}", "filename": "t.txt"}});
    let source: muster_ranktable::ConfigMap = serde_json::from_value(source).unwrap();
    Ok(Arc::new(TableTemplate::read(&source, None).unwrap()))
}

fn member(name: &str) -> Member {
    let object = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name,
            "creationTimestamp": Timestamp::from_second(START).unwrap().to_string(),
            "labels": {"muster.dev/rank-group": "g"},
            "annotations": {
                "muster.dev/rank-group-size": "2",
                "muster.dev/ranktable-template": "t",
                "muster.dev/ranktable-file": "t.txt",
                "ascend.com/ranktable": format!(r#"{{"pod_name":"{name}","server_id":"s-{name}","devices":[{{"device_id":"0"}}]}}"#),
            },
        },
        "spec": {"nodeName": format!("node-{name}"), "containers": [],
            "volumes": [{"name": "ranktable", "emptyDir": {}}]},
        "status": {"phase": "Pending"},
    });
    let pod: Pod = serde_json::from_value(object).unwrap();
    let mut member = Member::of(&key(), &pod);
    member.devices = member.pod.annotation().map(|text| Devices::Annotated(text.into()));
    (member.reported, member.table.connected) = (true, true);
    member
}

fn key() -> GroupKey {
    GroupKey { namespace: "n".into(), name: "g".into() }
}

fn failed(error: WriteError) -> Event {
    Event::Task(Box::new(TaskResult::Failed { error, found: None }))
}

fn conflict() -> WriteError {
    WriteError::Conflict { what: "ConfigMap g-ranktable".into() }
}

fn refused() -> WriteError {
    let error = Box::new(kube::Error::LinesCodecMaxLineLengthExceeded);
    WriteError::Refused { what: "ConfigMap g-ranktable".into(), error }
}

// === impl Play ===

impl Play {
    fn new(pods: &[&str]) -> Self {
        let clock = tokio::time::Instant::now();
        let now = Moment { clock, time: Timestamp::from_second(START).unwrap() };
        let mut play = Self { group: RankGroup::new(key()), template: template(), now, writes: 0 };
        for pod in pods {
            play.group.set_member(member(pod), clock);
        }
        play
    }

    fn later(&mut self, seconds: i64) {
        self.now.clock += Duration::from_secs(seconds.unsigned_abs());
        self.now.time += jiff::SignedDuration::from_secs(seconds);
    }

    /// As an API server answers.
    fn written(&mut self, record: Record) -> Record {
        self.writes += 1;
        Record { resource_version: self.writes.to_string(), uid: "record".into(), ..record }
    }

    /// What happens, and what the group wants done: events, tasks and whom it sends the table.
    fn on(&mut self, event: Event) -> (Vec<String>, Option<Task>) {
        let (timeouts, now) = (Timeouts::default(), self.now);
        let transition = match event {
            Event::Reconcile => {
                let around =
                    Surroundings { template: &self.template, timeouts: &timeouts, epoch: 1 };
                self.group.reconcile(around, now)
            }
            Event::Task(result) => self.group.task_ended(*result, now),
            Event::Sent(uids) => {
                self.group.table_sent(uids.iter().map(|uid| (*uid).to_owned()).collect(), now)
            }
            Event::PodCame(name) => {
                self.group.set_member(member(name), now.clock);
                Transition::default()
            }
            Event::PodGone(name) => {
                self.group.remove_member(name);
                Transition::default()
            }
            Event::DeviceGone(name) => {
                self.group.members.get_mut(name).unwrap().devices = None;
                Transition::default()
            }
            Event::Acknowledged(name) => {
                let published = self.group.recorded.published();
                self.group.members.get_mut(name).unwrap().table.delivered = published;
                Transition::default()
            }
            Event::RecordDeleted => {
                self.group.see_record(None, now);
                Transition::default()
            }
            Event::Later(seconds) => {
                self.later(seconds);
                Transition::default()
            }
        };
        let mut task = None;
        let rests = transition.failed.is_some().then(|| "rest".to_owned());
        let effects = transition.effects.into_iter().filter_map(|effect| match effect {
            Effect::Run(one) => {
                let name = format!("run {}", name(&one));
                task = Some(*one);
                Some(name)
            }
            Effect::Send { orders, .. } => {
                let pods: Vec<_> =
                    orders.into_iter().map(|(_, order)| order.place.pod_uid).collect();
                Some(format!("send {}", pods.join(" ")))
            }
            Effect::Event { reason, .. } => Some(format!("event {reason}")),
            Effect::Measure(Measure::Failed(reason)) => Some(format!("failed {reason}")),
            Effect::Forget => Some("forget".to_owned()),
            Effect::Measure(_) | Effect::Show(_) | Effect::Check(_) => None,
        });
        (effects.chain(rests).collect(), task)
    }

    /// The tasks that follow, as if all of them succeeded, until there is none.
    fn succeed(&mut self, mut task: Option<Task>) {
        while let Some(one) = task {
            let result = self.result(one);
            (_, task) = self.on(Event::Task(Box::new(result)));
        }
    }

    fn result(&mut self, task: Task) -> TaskResult {
        match task {
            Task::Create(record) | Task::Write(record) | Task::Mend { record, .. } => {
                TaskResult::Recorded(self.written(record))
            }
            Task::Compose(input) => TaskResult::Composed(Ok(made(*input))),
            Task::Publish(record) => {
                TaskResult::Published { record: self.written(record), took: Duration::ZERO }
            }
            Task::Load { record, input } => {
                let table = made(*input.unwrap()).0;
                TaskResult::Loaded { generation: record.generation, blob: table.blob }
            }
            Task::AnnotatePods { pods, .. } => {
                TaskResult::PodsAnnotated(pods.into_iter().map(|(_, uid)| uid).collect())
            }
            Task::Conditions { conditions, .. } => {
                self.writes += 1;
                TaskResult::Conditions { resource_version: self.writes.to_string(), conditions }
            }
            Task::Delete(_) => TaskResult::Deleted,
        }
    }

    /// Reconciles and lets tasks succeed until the group is in this phase.
    fn until(mut self, phase: &str) -> Self {
        for _ in 0..9 {
            if self.group.phase.name() == phase {
                return self;
            }
            let (_, mut task) = self.on(Event::Reconcile);
            while let Some(one) = task {
                if self.group.phase.name() == phase {
                    return self;
                }
                let result = self.result(one);
                (_, task) = self.on(Event::Task(Box::new(result)));
            }
            if phase == "Published" && self.group.phase.name() == "Delivering" {
                for name in ["a", "b"] {
                    self.on(Event::Acknowledged(name));
                }
            }
        }
        panic!("never {phase}, but {:?}", self.group.phase);
    }
}

fn made(input: ComposeInput) -> (MadeTable, Content) {
    let composed: Composed = super::super::compose::compose(input).unwrap();
    let blob = Arc::new(Blob::pack(composed.text.as_bytes()).unwrap());
    let content = composed.content();
    (MadeTable { composed, blob, took: Duration::ZERO }, content)
}

fn name(task: &Task) -> &'static str {
    match task {
        Task::Create(_) => "create",
        Task::Write(_) => "write",
        Task::Compose(_) => "compose",
        Task::Publish(_) => "publish",
        Task::Load { .. } => "load",
        Task::Mend { .. } => "mend",
        Task::AnnotatePods { .. } => "annotate",
        Task::Conditions { .. } => "conditions",
        Task::Delete(_) => "delete",
    }
}

/// Plays all events from a phase on; only the last one's effects count.
fn judge(what: &str, mut play: Play, events: Vec<Event>, phase: &str, expected: &[&str]) {
    let mut effects = Vec::new();
    for event in events {
        (effects, _) = play.on(event);
    }
    assert_eq!((play.group.phase.name(), effects), (phase, texts(expected)), "{what}");
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn each_event_leads_from_its_phase_to_the_next_with_these_effects() {
    use Event::{
        Acknowledged, DeviceGone, Later, PodCame, PodGone, Reconcile, RecordDeleted, Sent, Task,
    };
    let both = || Play::new(&["a", "b"]);
    let one = || Play::new(&["a"]);
    let at = |phase: &str| both().until(phase);
    let not_composed = || Task(Box::new(TaskResult::Composed(Err(ComposeError::Panicked))));
    let failed_before = || {
        let mut play = at("Composing");
        play.on(not_composed());
        play.on(Reconcile);
        play
    };
    let recorded = |mut play: Play| {
        let (_, task) = play.on(Reconcile);
        play.succeed(task);
        play
    };
    type Row = (&'static str, Play, Vec<Event>, &'static str, &'static [&'static str]);
    let rows: Vec<Row> = vec![
        ("a group begins with a record", both(), vec![Reconcile], "Waiting", &["run create"]),
        (
            "then the table is made",
            recorded(both()),
            vec![Reconcile],
            "Composing",
            &["run compose"],
        ),
        ("a pod is missing", recorded(one()), vec![Reconcile], "Waiting", &[]),
        (
            "and still, which is worth a write",
            recorded(one()),
            vec![Reconcile, Later(2), Reconcile],
            "Waiting",
            &["run conditions"],
        ),
        (
            "it comes",
            recorded(one()),
            vec![Reconcile, PodCame("b"), Reconcile],
            "Composing",
            &["run compose"],
        ),
        (
            "it never comes",
            recorded(one()),
            vec![Reconcile, Later(700), Reconcile],
            "Waiting",
            &["failed timeout", "event RanktableGenerationFailed", "run conditions"],
        ),
        (
            "no table can be made",
            at("Composing"),
            vec![not_composed()],
            "Failed",
            &["failed internal"],
        ),
        (
            "that is reported",
            at("Composing"),
            vec![not_composed(), Reconcile],
            "Failed",
            &["event RanktableGenerationFailed", "run conditions"],
        ),
        ("and not tried again", failed_before(), vec![Reconcile], "Failed", &["run conditions"]),
        ("until something changes", failed_before(), vec![PodGone("b"), Reconcile], "Waiting", &[]),
        ("the write fails", at("Recording"), vec![failed(conflict())], "Waiting", &["rest"]),
        (
            "and all begins anew",
            at("Recording"),
            vec![failed(conflict()), Reconcile],
            "Composing",
            &["run compose"],
        ),
        (
            "the write is refused",
            at("Recording"),
            vec![failed(refused())],
            "Waiting",
            &["failed refused", "event RanktableGenerationFailed", "rest"],
        ),
        ("recorded, it is sent", at("Delivering"), vec![Reconcile], "Delivering", &["send a b"]),
        ("once", at("Delivering"), vec![Sent(&["a", "b"]), Reconcile], "Delivering", &[]),
        (
            "again to whom the hub did not know",
            at("Delivering"),
            vec![Sent(&["a"]), Reconcile],
            "Delivering",
            &["send b"],
        ),
        (
            "who is late is reported",
            at("Delivering"),
            vec![Sent(&["a", "b"]), Later(6), Reconcile],
            "Delivering",
            &["event RanktableLate", "run conditions"],
        ),
        (
            "all have it",
            at("Delivering"),
            vec![Sent(&["a", "b"]), Acknowledged("a"), Acknowledged("b"), Reconcile],
            "Published",
            &["event RanktableDelivered", "run conditions"],
        ),
        ("a device goes", at("Published"), vec![DeviceGone("b"), Reconcile], "Waiting", &[]),
        (
            "a pod is replaced",
            at("Published"),
            vec![PodGone("b"), PodCame("c"), Reconcile],
            "Composing",
            &["run compose"],
        ),
        (
            "the record is deleted",
            at("Published"),
            vec![RecordDeleted, Reconcile],
            "Waiting",
            &["run create"],
        ),
        (
            "the recorded table is lost",
            at("Published"),
            vec![Task(Box::new(TaskResult::Lost)), Reconcile],
            "Composing",
            &["run compose"],
        ),
        (
            "the pods go",
            at("Published"),
            vec![PodGone("a"), PodGone("b"), Reconcile],
            "Waiting",
            &["forget"],
        ),
    ];
    for (what, play, events, phase, expected) in rows {
        judge(what, play, events, phase, expected);
    }
}

#[test]
fn a_new_leader_loads_the_table_and_numbers_nothing_anew() {
    let before = Play::new(&["a", "b"]).until("Published");
    let mut after = Play::new(&["a", "b"]);
    after.group.set_record(before.group.record().cloned(), after.now.time);
    let (effects, task) = after.on(Event::Reconcile);
    assert_eq!((after.group.phase.name(), effects), ("Delivering", texts(&["run load"])));
    after.succeed(task);
    let (effects, _) = after.on(Event::Reconcile);
    assert_eq!(effects, texts(&["send a b"]));
    assert_eq!(after.group.record().unwrap().generation, 1);
}

#[test]
fn nobody_is_sent_a_generation_that_is_not_recorded() {
    for phase in ["Composing", "Recording"] {
        let play = Play::new(&["a", "b"]).until(phase);
        assert_eq!(play.group.recorded.ready_table().map(|table| table.generation), None);
        assert_eq!(play.group.recorded.published(), None::<(u64, Digest)>);
        assert!(play.group.send_table().is_none(), "{phase}");
    }
}

#[test]
fn a_record_that_is_deleted_again_and_again_is_made_later_and_later() {
    let mut play = Play::new(&["a", "b"]).until("Published");
    let mut waits = Vec::new();
    for _ in 0..3 {
        play.on(Event::RecordDeleted);
        waits.push(play.group.held_until.unwrap() - play.now.clock);
    }
    assert_eq!(waits, [200, 400, 800].map(Duration::from_millis));
    play.on(Event::PodCame("c"));
    assert_eq!(play.group.held_until, None, "a pod that comes does not wait for it");
}

#[test]
fn what_is_to_be_done_says_whether_the_table_is_ready() {
    let play = Play::new(&["a", "b"]).until("Published");
    let next = play.group.next_step(&play.template, &Timeouts::default(), play.now.time);
    let Readiness { ready, reason, .. } = next.readiness;
    assert_eq!((next.action, ready, reason), (Action::HandOut, true, "Published"));
}
