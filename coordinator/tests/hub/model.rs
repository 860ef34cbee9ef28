//! Both state machines against each other, without sockets: reconnects, hubs that come and go, orders that get lost.
//!
//! The agent keeps the epoch of every hub that it has obeyed, from Welcome on, as its disk does.
//! There are two hubs. The older one does not know yet that it has been replaced. Whatever happens, an agent that has
//! heard the newer one never obeys the older one, no place goes back in generation, and in the end the agent has
//! what the newer hub wants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_agent::link::{DeliverError, Link, Me, Output};
use muster_hub::blob::Blob;
use muster_hub::queue::{Order, Outbox};
use muster_hub::registry::{Pods, Registry};
use muster_proto::delivery::{Delivered, Delivery, Digest, Place};
use muster_proto::link::{FromAgent, FromHub, Welcome};
use proptest::prelude::*;

use crate::world::{delivery, place, pods};

const UIDS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    /// The agent connects to the older or the newer hub.
    Connect(bool),
    /// The stream breaks; what is on its way is lost.
    Break,
    /// A message arrives at the hub.
    Up,
    /// Messages arrive at the agent.
    Down(u8),
    /// A controller at the older or newer hub wants the next generation.
    Want(bool, u8),
    /// Or no table at all. The older one does not know that its generation is wanted by the newer one.
    Retire(bool, u8),
    /// A write ends.
    Write,
    /// A write fails for a reason that does not last.
    Fail,
    /// The agent pings.
    Ping,
    /// The agent process restarts.
    Restart,
    /// A pod goes or comes back.
    Pod(u8, bool),
}

struct Hub {
    epoch: u64,
    registry: Registry,
    session: u64,
    outbox: Outbox,
    /// What its controllers want, whether or not it could be said yet.
    desired: BTreeMap<Place, (u64, Option<Arc<Blob>>)>,
}

struct Model {
    link: Link,
    hubs: [Hub; 2],
    /// The hub that the agent is connected to.
    at: Option<usize>,
    to_hub: VecDeque<FromAgent>,
    /// What is being done, and the epoch of who ordered it.
    running: VecDeque<(u64, Output)>,
    disk: BTreeMap<Place, (u64, Digest)>,
    /// What the agent keeps beyond its process.
    disk_epoch: u64,
    /// The highest epoch that was ever welcomed.
    highest: u64,
    /// Whether a retire that was overtaken by a newer hub is refused; it must be well either way.
    refuses_late_retires: bool,
    alive: Vec<&'static str>,
    generation: u64,
    now: Duration,
}

fn me() -> Me {
    let text = str::to_owned;
    Me { node: text("n1"), boot_id: text("b"), version: text("1"), instance: text("i") }
}

impl Hub {
    fn new(epoch: u64) -> Self {
        let (registry, outbox) = (Registry::default(), Outbox::new(64));
        Self { epoch, registry, session: 0, outbox, desired: BTreeMap::new() }
    }

    /// What a controller does whenever something changed.
    fn reconcile(&mut self, connected: bool) {
        for (place, (generation, blob)) in &self.desired {
            let told = match blob {
                Some(blob) => {
                    let order = delivery(&place.pod_uid, *generation, blob.digest());
                    self.registry.set_desired("n1", order, blob.clone()).unwrap_or(None)
                }
                None => self.registry.clear_desired("n1", place, *generation),
            };
            if let (Some((session, order)), true) = (told, connected) {
                assert_eq!(session, self.session);
                self.outbox.push(order).unwrap();
            }
        }
    }
}

impl Model {
    fn new(refuses_late_retires: bool) -> Self {
        let mut model = Self {
            link: Link::new(me(), 0, Vec::new()),
            hubs: [Hub::new(1), Hub::new(2)],
            at: None,
            to_hub: VecDeque::new(),
            running: VecDeque::new(),
            disk: BTreeMap::new(),
            disk_epoch: 0,
            highest: 0,
            refuses_late_retires,
            alive: UIDS.to_vec(),
            generation: 0,
            now: Duration::ZERO,
        };
        model.tell_pods();
        model
    }

    fn tell_pods(&mut self) {
        let outputs = self.link.pods(&pods(&self.alive));
        self.perform(outputs);
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(message) => self.to_hub.push_back(message),
                Output::Deliver { .. } | Output::Retire { .. } => {
                    let at = self.at.expect("an order comes from a hub");
                    let epoch = self.hubs[at].epoch;
                    assert!(epoch >= self.highest, "an older epoch was obeyed: {output:?}");
                    self.running.push_back((epoch, output));
                }
                Output::Disconnect(_) | Output::Redirect(_) => self.leave(),
            }
        }
    }

    fn leave(&mut self) {
        if let Some(at) = self.at.take() {
            let hub = &mut self.hubs[at];
            hub.registry.close("n1", hub.session);
            self.link.disconnected();
            self.to_hub.clear();
        }
    }

    fn connect(&mut self, newer: bool) {
        self.leave();
        let at = usize::from(newer);
        self.at = Some(at);
        let outputs = self.link.connected(self.now);
        self.perform(outputs);
        let Some(FromAgent::Hello(hello)) = self.to_hub.pop_front() else { panic!("no Hello") };
        assert!(self.to_hub.is_empty(), "only Hello before Welcome");
        let hub = &mut self.hubs[at];
        let opened = hub.registry.open(hello, 0);
        hub.session = opened.session;
        hub.outbox = Outbox::new(64);
        let welcome = Welcome {
            epoch: hub.epoch,
            version: String::new(),
            inventory: opened.inventory,
            pods: opened.pods,
            ping_every: Duration::from_secs(10),
        };
        hub.outbox.welcome(welcome, opened.orders);
    }

    fn up(&mut self) {
        let (Some(at), Some(message)) = (self.at, self.to_hub.pop_front()) else { return };
        let hub = &mut self.hubs[at];
        let again = match message {
            FromAgent::Pods(change) => {
                let before = hub.registry.pods_before("n1", hub.session);
                let pods = Pods::after(before.as_ref(), change).unwrap();
                hub.registry.set_pods("n1", hub.session, pods);
                hub.reconcile(true);
                None
            }
            FromAgent::Ack(ack) => hub.registry.ack("n1", hub.session, ack),
            _ => None,
        };
        if let Some(order) = again {
            if let Order::Deliver { delivery, .. } = &order {
                hub.outbox.forget(&delivery.digest);
            }
            hub.outbox.push(order).unwrap();
        }
    }

    fn down(&mut self) -> bool {
        let Some(at) = self.at else { return false };
        let Some(message) = self.hubs[at].outbox.take() else { return false };
        let welcomed = matches!(message, FromHub::Welcome(_));
        let outputs = self.link.received(self.now, message);
        // What the link's client does at Welcome, before any order.
        if welcomed && self.link.is_up() {
            let epoch = self.hubs[at].epoch;
            (self.highest, self.disk_epoch) = (self.highest.max(epoch), self.disk_epoch.max(epoch));
        }
        self.perform(outputs);
        true
    }

    /// Whether something was said again.
    fn ping(&mut self) -> bool {
        let (Some(at), true) = (self.at, self.link.is_up()) else { return false };
        let hub = &mut self.hubs[at];
        let orders = hub.registry.retry("n1", hub.session, 8);
        let some = !orders.is_empty();
        for order in orders {
            hub.outbox.push(order).unwrap();
        }
        some
    }

    fn fail(&mut self, reason: &'static str) {
        let Some((_, output)) = self.running.pop_front() else { return };
        let (Output::Deliver { delivery: Delivery { place, .. }, .. }
        | Output::Retire { place, .. }) = output
        else {
            return;
        };
        let outputs = self.link.done(&place, Err(DeliverError { reason, message: String::new() }));
        self.perform(outputs);
    }

    fn write(&mut self) {
        let late = |(epoch, output): &(u64, Output)| {
            let checked = self.refuses_late_retires || matches!(output, Output::Deliver { .. });
            checked && *epoch < self.disk_epoch
        };
        if self.running.front().is_some_and(late) {
            return self.fail("older-epoch");
        }
        let Some((by, output)) = self.running.pop_front() else { return };
        let outputs = match output {
            Output::Deliver { epoch, delivery, packed } => {
                assert_eq!(epoch, by);
                let Delivery { place, generation, digest, .. } = delivery;
                let table = Blob::forged(digest, packed).table().unwrap();
                assert_eq!(Digest::of(&table), digest);
                let before = self.disk.insert(place.clone(), (generation, digest));
                assert!(before.is_none_or(|(before, _)| before <= generation), "it went back");
                let done = Delivered { place: place.clone(), generation, digest };
                self.link.done(&place, Ok(Some(done)))
            }
            Output::Retire { place, generation, .. } => {
                let newer = self.disk.get(&place).is_some_and(|(there, _)| *there > generation);
                assert!(!newer, "a newer table was retired");
                self.disk.remove(&place);
                self.link.done(&place, Ok(None))
            }
            _ => Vec::new(),
        };
        self.perform(outputs);
    }

    fn want(&mut self, newer: bool, uid: u8, table: bool) {
        let uid = UIDS[usize::from(uid) % UIDS.len()];
        // Generations are kept in Kubernetes: the older hub knows none that the newer one has made.
        self.generation += 1;
        let generation = self.generation;
        let blob = table.then(|| Arc::new(Blob::pack(&generation.to_le_bytes()).unwrap()));
        self.desire(newer, uid, generation, blob.clone());
        if !newer {
            // What the older one has done, the newer one finds; every other time it makes a generation of it.
            let known = self.hubs[1].desired.get(&place(uid)).map_or(0, |(known, _)| *known);
            if known < generation {
                self.generation += generation % 2;
                self.desire(true, uid, self.generation, blob);
            }
        }
    }

    fn retire(&mut self, newer: bool, uid: u8) {
        let at = UIDS[usize::from(uid) % UIDS.len()];
        match self.hubs[0].desired.get(&place(at)) {
            _ if newer => self.want(true, uid, false),
            Some((generation, _)) => self.desire(false, at, *generation, None),
            None => {}
        }
    }

    fn desire(&mut self, newer: bool, uid: &str, generation: u64, blob: Option<Arc<Blob>>) {
        let at = usize::from(newer);
        self.hubs[at].desired.insert(place(uid), (generation, blob));
        self.hubs[at].reconcile(self.at == Some(at));
    }

    fn step(&mut self, step: Step) {
        self.now += Duration::from_millis(100);
        match step {
            Step::Connect(newer) => self.connect(newer),
            Step::Break => self.leave(),
            Step::Up => self.up(),
            Step::Down(count) => {
                for _ in 0..count {
                    self.down();
                }
            }
            Step::Want(newer, uid) => self.want(newer, uid, true),
            Step::Retire(newer, uid) => self.retire(newer, uid),
            Step::Write => self.write(),
            Step::Fail => self.fail("io"),
            Step::Ping => {
                self.ping();
            }
            Step::Restart => {
                self.leave();
                // A write is atomic: it was done, or not at all.
                self.running.clear();
                let there = |(place, (generation, digest)): (&Place, &(u64, Digest))| Delivered {
                    place: place.clone(),
                    generation: *generation,
                    digest: *digest,
                };
                let delivered = self.disk.iter().map(there).collect();
                self.link = Link::new(me(), self.disk_epoch, delivered);
                self.tell_pods();
            }
            Step::Pod(uid, lives) => {
                let uid = UIDS[usize::from(uid) % UIDS.len()];
                self.alive.retain(|other| *other != uid);
                if lives {
                    self.alive.push(uid);
                }
                self.tell_pods();
            }
        }
    }

    /// Peace: the newer hub is connected, and everything arrives.
    fn settle(&mut self) {
        self.alive = UIDS.to_vec();
        self.tell_pods();
        self.connect(true);
        let mut rounds = 0;
        loop {
            let mut busy = self.down();
            busy |= !self.to_hub.is_empty() || !self.running.is_empty();
            self.up();
            self.write();
            rounds += 1;
            assert!(rounds < 1000, "it never comes to rest");
            if !busy && !self.ping() {
                break;
            }
        }
        assert_eq!(self.at, Some(1), "the newer hub is obeyed");
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<bool>().prop_map(Step::Connect),
        1 => Just(Step::Break),
        4 => Just(Step::Up),
        6 => (1u8..6).prop_map(Step::Down),
        4 => (any::<bool>(), 0u8..3).prop_map(|(newer, uid)| Step::Want(newer, uid)),
        2 => (any::<bool>(), 0u8..3).prop_map(|(newer, uid)| Step::Retire(newer, uid)),
        5 => Just(Step::Write),
        1 => Just(Step::Fail),
        1 => Just(Step::Ping),
        1 => Just(Step::Restart),
        1 => (0u8..3, any::<bool>()).prop_map(|(uid, lives)| Step::Pod(uid, lives)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_happens_the_agent_ends_where_the_newest_hub_wants_it(
        steps in proptest::collection::vec(step(), 0..120),
        refuses_late_retires in any::<bool>(),
    ) {
        let mut model = Model::new(refuses_late_retires);
        for step in steps {
            model.step(step);
        }
        model.settle();
        for (place, (generation, blob)) in &model.hubs[1].desired {
            let there = model.disk.get(place).copied();
            let wanted = blob.as_ref().map(|blob| (*generation, blob.digest()));
            prop_assert_eq!(there, wanted, "{}", place);
        }
    }
}
