//! Which connections there are and who makes room for whom. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Source;

/// Names a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(u64);

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Table {
    most: usize,
    most_per_source: usize,
    /// Counts connections and their changes: who has a smaller number has been quiet for longer.
    count: u64,
    open: HashMap<Id, Entry>,
    per_source: HashMap<Source, usize>,
    /// Those that have never brought a request, and those that have.
    silent: Quiet,
    idle: Quiet,
    /// Those that have to close and have not closed yet.
    closing: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    state: State,
}

/// What a connection does. Numbers say since when.
#[derive(Clone, Copy, Debug)]
enum State {
    Silent(u64),
    Idle(u64),
    Working,
}

/// Connections that may be closed to make room, by source.
#[derive(Debug, Default)]
struct Quiet {
    len: usize,
    sources: HashMap<Source, BTreeMap<u64, Id>>,
    /// The source with most of them comes last; of several, the one that has had one for longest.
    order: BTreeSet<(usize, Reverse<u64>, Source)>,
}

/// A connection may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub id: Id,
    /// This one has to close.
    pub closes: Option<Id>,
}

/// Why it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// All connections of this source work.
    Source,
    /// All connections work, or too many are being closed.
    Listener,
}

// === impl Table ===

impl Table {
    pub fn new(most: usize, most_per_source: usize) -> Self {
        Self {
            most,
            most_per_source,
            count: 0,
            open: HashMap::new(),
            per_source: HashMap::new(),
            silent: Quiet::default(),
            idle: Quiet::default(),
            closing: 0,
        }
    }

    /// How many are open, without those that have to close.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Decides about a newcomer. A source that is full makes room among its own. If the listener is full, the source with the most
    /// quiet connections does, so that one with few keeps them whatever others do.
    pub fn admit(&mut self, source: Source) -> Result<Admitted, Refused> {
        let own = self.per_source.get(&source).copied().unwrap_or_default();
        let closes = if own >= self.most_per_source {
            let oldest = self.silent.oldest_of(&source).or_else(|| self.idle.oldest_of(&source));
            Some(oldest.ok_or(Refused::Source)?)
        } else if self.open.len() >= self.most {
            // Neither callers that come and say nothing nor those that said something once push the others out.
            let (more, fewer) = match self.idle.len > self.silent.len {
                true => (&self.idle, &self.silent),
                false => (&self.silent, &self.idle),
            };
            Some(more.greediest().or_else(|| fewer.greediest()).ok_or(Refused::Listener)?)
        } else {
            None
        };
        // Sockets that close take a moment; there must not be any number of them.
        if closes.is_some() && self.closing > self.most / 4 + 8 {
            return Err(Refused::Listener);
        }
        if let Some(id) = closes {
            self.forget(id);
            self.closing += 1;
        }
        let number = self.next();
        let id = Id(number);
        self.open.insert(id, Entry { source, state: State::Silent(number) });
        self.silent.insert(source, number, id);
        *self.per_source.entry(source).or_default() += 1;
        Ok(Admitted { id, closes })
    }

    /// A request has come.
    pub fn set_working(&mut self, id: Id) {
        let Some(entry) = self.open.get_mut(&id) else { return };
        let Entry { source, state } = *entry;
        entry.state = State::Working;
        self.leave(source, state);
    }

    /// All its requests are answered.
    pub fn set_idle(&mut self, id: Id) {
        let number = self.next();
        let Some(entry) = self.open.get_mut(&id) else { return };
        let Entry { source, state } = *entry;
        entry.state = State::Idle(number);
        self.leave(source, state);
        self.idle.insert(source, number, id);
    }

    /// It is closed.
    pub fn remove(&mut self, id: Id) {
        if !self.forget(id) {
            self.closing = self.closing.saturating_sub(1);
        }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Whether it was open.
    fn forget(&mut self, id: Id) -> bool {
        let Some(Entry { source, state }) = self.open.remove(&id) else { return false };
        self.leave(source, state);
        if let Some(count) = self.per_source.get_mut(&source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.per_source.remove(&source);
            }
        }
        true
    }

    fn leave(&mut self, source: Source, state: State) {
        match state {
            State::Silent(since) => self.silent.remove(source, since),
            State::Idle(since) => self.idle.remove(source, since),
            State::Working => {}
        }
    }
}

// === impl Quiet ===

impl Quiet {
    fn insert(&mut self, source: Source, since: u64, id: Id) {
        self.change(source, |own| own.insert(since, id).is_none());
        self.len += 1;
    }

    fn remove(&mut self, source: Source, since: u64) {
        if self.change(source, |own| own.remove(&since).is_some()) {
            self.len = self.len.saturating_sub(1);
        }
    }

    fn change(
        &mut self,
        source: Source,
        change: impl FnOnce(&mut BTreeMap<u64, Id>) -> bool,
    ) -> bool {
        let own = self.sources.entry(source).or_default();
        if let Some(rank) = rank(source, own) {
            self.order.remove(&rank);
        }
        let changed = change(own);
        match rank(source, own) {
            Some(rank) => drop(self.order.insert(rank)),
            None => drop(self.sources.remove(&source)),
        }
        changed
    }

    /// The connection of this source that has been quiet for longest.
    fn oldest_of(&self, source: &Source) -> Option<Id> {
        self.sources.get(source)?.values().next().copied()
    }

    /// That of the source with the most.
    fn greediest(&self) -> Option<Id> {
        self.oldest_of(&self.order.last()?.2)
    }
}

fn rank(source: Source, own: &BTreeMap<u64, Id>) -> Option<(usize, Reverse<u64>, Source)> {
    let oldest = own.keys().next()?;
    Some((own.len(), Reverse(*oldest), source))
}
