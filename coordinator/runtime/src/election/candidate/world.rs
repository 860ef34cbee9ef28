//! A world of three coordinators and one Lease: requests and answers get lost or late, processes pause and die, the API
//! goes away, somebody deletes the Lease; clocks on walls show anything and stopwatches run a tenth too fast or slow.
//! Never do two lead at once, epochs only grow, and soon after things are well again somebody leads.

use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const LEASE: Duration = Duration::from_secs(3);
/// The world moves in steps of this.
const TICK: u64 = 10;
const COUNT: usize = 3;

/// What happens to the world.
#[derive(Clone, Debug)]
enum Blow {
    /// Nothing, for a while.
    Calm,
    /// The process stops, without a word, and another one comes in its place.
    Kill(usize),
    /// The process ends in order, and another one comes in its place.
    Stop(usize),
    /// The process does nothing for so many milliseconds.
    Pause(usize, u64),
    /// It cannot reach the API for so long; with `COUNT`, nobody can.
    Outage(usize, u64),
    /// So many of a hundred requests, and of answers, are lost from now on, and so many are late.
    Weather(u8, u8),
    /// The clock on its wall jumps to so many seconds since 1970.
    Wall(usize, i64),
    /// Somebody deletes the Lease.
    Delete,
    /// Somebody edits the Lease.
    Edit(u8),
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Request {
    step: Step,
    lease: Option<Lease>,
    epoch: u64,
    sent: Instant,
    /// By the world's time.
    arrives: Option<u64>,
    answered: Option<u64>,
    answer: Option<Result<Option<Lease>, ()>>,
}

struct Process {
    candidate: Candidate,
    /// How fast its stopwatch runs: of a thousand.
    rate: u64,
    wall: i64,
    waits: Option<Request>,
    paused: u64,
    cut: u64,
}

struct World {
    now: u64,
    origin: Instant,
    lease: Option<Lease>,
    version: u64,
    processes: Vec<Process>,
    /// Requests whose sender has given up.
    orphans: Vec<Request>,
    born: u64,
    lost: u8,
    late: u8,
    dice: StdRng,
    /// Epochs of all reigns, in order.
    epochs: Vec<u64>,
}

fn candidate(number: u64) -> Candidate {
    let (identity, address) = (format!("c{number}"), format!("https://c{number}:1"));
    Candidate::new(&Settings { lease: LEASE, ..Settings::new("muster", identity, address) })
}

impl World {
    fn new(seed: u64, rates: [u64; COUNT]) -> Self {
        let process = |(number, rate): (u64, u64)| Process {
            candidate: candidate(number),
            rate,
            wall: 1_800_000_000,
            waits: None,
            paused: 0,
            cut: 0,
        };
        Self {
            now: 0,
            origin: Instant::now(),
            lease: None,
            version: 0,
            processes: (0..).zip(rates).map(process).collect(),
            orphans: Vec::new(),
            born: COUNT as u64,
            lost: 0,
            late: 0,
            dice: StdRng::seed_from_u64(seed),
            epochs: Vec::new(),
        }
    }

    /// What the stopwatch of a process shows.
    fn local(&self, index: usize) -> Instant {
        self.origin + Duration::from_micros(self.now * self.processes[index].rate)
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |index: &usize| {
            let term = self.processes[*index].candidate.term();
            term.is_some_and(|term| self.local(*index) < term.until)
        };
        (0..COUNT).filter(leads).collect()
    }

    /// The API server does what a request says, if its resourceVersion is the newest.
    fn serve(&mut self, request: &Request) -> Result<Option<Lease>, ()> {
        let Some(lease) = &request.lease else { return Ok(self.lease.clone()) };
        let stands = resource_version(self.lease.as_ref()).map(str::to_owned);
        let fits = match request.step {
            Step::Create => stands.is_none(),
            _ => stands.is_some() && stands.as_deref() == resource_version(Some(lease)),
        };
        if !fits {
            return Err(());
        }
        self.put(Some(lease.clone()));
        Ok(self.lease.clone())
    }

    fn put(&mut self, lease: Option<Lease>) {
        self.version += 1;
        self.lease = lease.map(|mut lease| {
            lease.metadata.resource_version = Some(self.version.to_string());
            lease
        });
        // Some hear of it at once.
        let version = self.version.to_string();
        for process in &mut self.processes {
            if self.dice.random_bool(0.5) {
                process.candidate.nudge(self.lease.as_ref().map(|_| version.as_str()));
            }
        }
    }

    /// When a request arrives and is answered, if at all.
    fn fate(&mut self, cut: bool) -> (Option<u64>, Option<u64>) {
        let percent = |dice: &mut StdRng, of: u8| dice.random_range(0..100) < of;
        if cut || percent(&mut self.dice, self.lost) {
            return (None, None);
        }
        let most = if percent(&mut self.dice, self.late) { 9_000 } else { 60 };
        let arrives = self.now + self.dice.random_range(0..=most);
        let answered = arrives + self.dice.random_range(0..=most);
        let lost = percent(&mut self.dice, self.lost);
        (Some(arrives), (!lost).then_some(answered))
    }

    fn tick(&mut self) {
        self.now += TICK;
        let mut orphans = std::mem::take(&mut self.orphans);
        for request in &orphans {
            if request.arrives.is_some_and(|at| at <= self.now) {
                let _nobody_listens = self.serve(request);
            }
        }
        orphans.retain(|request| request.arrives.is_some_and(|at| at > self.now));
        self.orphans.append(&mut orphans);
        for index in 0..COUNT {
            self.turn(index);
        }
    }

    fn turn(&mut self, index: usize) {
        if let Some(mut request) = self.processes[index].waits.take() {
            if request.answer.is_none() && request.arrives.is_some_and(|at| at <= self.now) {
                request.answer = Some(self.serve(&request));
                request.arrives = None;
            }
            self.processes[index].waits = Some(request);
        }
        let now = self.local(index);
        let world_now = self.now;
        let process = &mut self.processes[index];
        process.wall += i64::from(world_now.is_multiple_of(1_000));
        if world_now < process.paused {
            return;
        }
        if let Some(request) = process.waits.take() {
            let answered = request.answered.is_some_and(|at| at <= world_now);
            match &request.answer {
                // Who was paused may still find the answer when it wakes.
                Some(answer) if answered => match (answer, &request.lease) {
                    (Ok(lease), None) => process.candidate.found(lease.clone(), now),
                    (Ok(Some(lease)), Some(_)) => {
                        let before = process.candidate.term().map(|term| term.epoch);
                        process.candidate.wrote(lease.clone(), request.epoch, request.sent, now);
                        let after = process.candidate.term().map(|term| term.epoch);
                        self.epochs.extend(after.filter(|_| before != after));
                    }
                    _ => process.candidate.failed(true, request.sent),
                },
                _ if now >= request.sent + LEASE / 6 => {
                    process.candidate.failed(false, request.sent);
                    self.orphans.push(request);
                }
                _ => process.waits = Some(request),
            }
        }
        let process = &mut self.processes[index];
        if process.waits.is_some() {
            return;
        }
        let step = process.candidate.step(now);
        let wall = Timestamp::from_second(process.wall).unwrap();
        let drafted = process.candidate.draft(step, wall);
        if step != Step::Look && drafted.is_none() {
            return;
        }
        let cut = world_now < process.cut;
        let (arrives, answered) = self.fate(cut);
        let (lease, epoch) = drafted.map_or((None, 0), |(lease, epoch)| (Some(lease), epoch));
        let request = Request { step, lease, epoch, sent: now, arrives, answered, answer: None };
        self.processes[index].waits = Some(request);
    }

    fn strike(&mut self, blow: &Blow) {
        match *blow {
            Blow::Calm => {}
            Blow::Kill(index) | Blow::Stop(index) => {
                // Without the Lease a new one cannot know that somebody leads; see the record of the decision.
                if self.lease.is_none() {
                    return;
                }
                if let Blow::Stop(_) = blow
                    && let Some(lease) = self.processes[index].candidate.release()
                {
                    let step = Step::Take;
                    let (arrives, sent) = (Some(self.now + 30), self.local(index));
                    let (answered, answer) = (None, None);
                    let lease = Some(lease);
                    self.orphans.push(Request {
                        step,
                        lease,
                        epoch: 0,
                        sent,
                        arrives,
                        answered,
                        answer,
                    });
                }
                self.orphans.extend(self.processes[index].waits.take());
                self.born += 1;
                let process = &mut self.processes[index];
                process.candidate = candidate(self.born);
                process.paused = self.now + self.dice.random_range(0..4_000);
            }
            Blow::Pause(index, time) => self.processes[index].paused = self.now + time,
            Blow::Outage(index, time) => {
                for process in self
                    .processes
                    .iter_mut()
                    .skip(index % COUNT)
                    .take(if index == COUNT { COUNT } else { 1 })
                {
                    process.cut = self.now + time;
                }
            }
            Blow::Weather(lost, late) => (self.lost, self.late) = (lost, late),
            Blow::Wall(index, seconds) => self.processes[index].wall = seconds,
            Blow::Delete => {
                // Who has not seen its epoch has only the clock on the wall.
                let epoch = self.lease.as_ref().and_then(|lease| Record::read(lease).epoch);
                let knows = |process: &Process| process.candidate.highest >= epoch.unwrap_or(0);
                if epoch.is_some() && self.processes.iter().all(knows) {
                    self.put(None);
                }
            }
            Blow::Edit(how) => {
                let Some(mut lease) = self.lease.clone() else { return };
                let spec = lease.spec.get_or_insert_default();
                match how {
                    0 => spec.holder_identity = None,
                    1 => spec.lease_duration_seconds = Some(1),
                    2 => spec.lease_duration_seconds = None,
                    3 => spec.lease_transitions = None,
                    _ => lease.metadata.labels = Some([("a".into(), self.now.to_string())].into()),
                }
                self.put(Some(lease));
            }
        }
    }

    /// Lets time pass, and looks at everything that must hold.
    fn pass(&mut self, time: u64) -> Result<(), TestCaseError> {
        for _ in 0..time / TICK {
            self.tick();
            let leaders = self.leaders();
            prop_assert!(leaders.len() <= 1, "{leaders:?} lead at {} ms", self.now);
            prop_assert!(self.epochs.is_sorted_by(|a, b| a < b), "{:?}", self.epochs);
        }
        Ok(())
    }

    fn calm(&mut self) {
        (self.lost, self.late) = (0, 0);
        let now = self.now;
        for process in &mut self.processes {
            (process.paused, process.cut) = (process.paused.min(now), process.cut.min(now));
        }
    }
}

fn blow() -> impl Strategy<Value = Blow> {
    let one = 0..COUNT;
    prop_oneof![
        3 => Just(Blow::Calm),
        2 => one.clone().prop_map(Blow::Kill),
        2 => one.clone().prop_map(Blow::Stop),
        3 => (one.clone(), 0..9_000_u64).prop_map(|(one, time)| Blow::Pause(one, time)),
        3 => (0..=COUNT, 0..9_000_u64).prop_map(|(one, time)| Blow::Outage(one, time)),
        2 => (0..40_u8, 0..40_u8).prop_map(|(lost, late)| Blow::Weather(lost, late)),
        1 => (one, 0..4_000_000_000_i64).prop_map(|(one, wall)| Blow::Wall(one, wall)),
        1 => Just(Blow::Delete),
        1 => (0..5_u8).prop_map(Blow::Edit),
    ]
}

fn rates() -> impl Strategy<Value = [u64; COUNT]> {
    [900..=1_100_u64, 900..=1_100, 900..=1_100]
}

proptest! {
    #[test]
    fn never_do_two_lead_and_soon_somebody_does(
        seed in any::<u64>(),
        rates in rates(),
        blows in prop::collection::vec((blow(), 0..4_000_u64), 1..40),
    ) {
        let mut world = World::new(seed, rates);
        for (blow, time) in &blows {
            world.strike(blow);
            world.pass(*time)?;
        }
        world.calm();
        // What is late may still arrive; after that, one lease and a bit.
        world.pass(9_000)?;
        world.pass(4_500)?;
        prop_assert_eq!(world.leaders().len(), 1, "nobody leads");
        let leader = world.leaders()[0];
        let epochs = world.epochs.len();
        world.pass(6_000)?;
        prop_assert_eq!(world.epochs.len(), epochs, "it leads on");
        // Killed: another one leads after the lease, half a second, and the stopwatches' tenth.
        world.strike(&Blow::Kill(leader));
        world.processes[leader].paused = u64::MAX;
        world.pass(4_000)?;
        prop_assert_eq!(world.leaders().len(), 1, "nobody leads after a kill");
    }
}

#[test]
fn who_stops_in_order_hands_over_at_once() {
    let mut world = World::new(1, [1_000; COUNT]);
    world.pass(2_000).unwrap();
    let leader = world.leaders()[0];
    world.strike(&Blow::Stop(leader));
    world.processes[leader].paused = u64::MAX;
    world.pass(1_000).unwrap();
    assert_eq!(world.leaders().len(), 1);
    assert_eq!(world.epochs.len(), 2);
}
