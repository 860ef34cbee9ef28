//! Whose requests count: what [`trust`] needs to know is looked up, and waited for where a cache or a kubelet may be late.

use std::net::IpAddr;
use std::time::Duration;

use muster_dijob::server::Route;
use muster_dijob::server::answer::Refusal;
use muster_dijob::server::trust::{self, Right, Subject, TokenError, Verdict};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::DiServer;
use super::answer::unavailable;
use super::remembered::Remembered;
use super::tokens::ReviewError;
use super::view::Seen;
use crate::workloads::Key;
use muster_runtime::writer::Writer;

/// How long the address of a pod that runs may take to be known: its kubelet reports it about a second after the start.
const ADDRESS_LAG_MAX: Duration = Duration::from_secs(5);

/// An address that belonged to no pod of the job when it was looked up is not looked up again for this long.
const NEGATIVE_FOR: Duration = Duration::from_secs(1);

/// Such addresses at most. When there are more, the caches alone count.
const MOST_NEGATIVE: usize = 4096;

/// Addresses that are looked up at once.
const MOST_LOOKUPS: usize = 8;

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Where the connection comes from, or what a coordinator says of that.
    pub source: IpAddr,
    /// The bearer token.
    pub token: Option<String>,
}

/// Looks up strangers, each once in a while.
#[derive(Debug)]
pub(super) struct Lookups {
    recent: Mutex<Remembered<IpAddr, ()>>,
    permits: Semaphore,
}

// === impl Lookups ===

impl Default for Lookups {
    fn default() -> Self {
        Self {
            recent: Mutex::new(Remembered::new(MOST_NEGATIVE)),
            permits: Semaphore::new(MOST_LOOKUPS),
        }
    }
}

impl Lookups {
    /// Whether it is this address' turn to be looked up.
    fn begin(&self, source: IpAddr, now: Instant) -> bool {
        let mut recent = self.recent.lock();
        recent.get(&source, now).is_none() && recent.put(source, (), NEGATIVE_FOR, now)
    }
}

// === impl DiServer ===

impl DiServer {
    /// Refuses a request that does not count. `granted` is what its token was good for before.
    ///
    /// Nothing is awaited between the last look at the view and the return: what the caller decides by the same view at
    /// once is about the jobs that were judged.
    pub(super) async fn admit(
        &self,
        writer: &Writer,
        seen: &Seen<'_>,
        (caller, about): (&Caller, (Route, &Subject)),
        granted: &mut Vec<Right>,
    ) -> Result<(), Refusal> {
        let Caller { source, token } = caller;
        let mut changes = self.caches.cache.subscribe();
        let until = Instant::now() + ADDRESS_LAG_MAX;
        let mut looked_up = false;
        loop {
            let verdict = trust::judge(seen, self.settings.trust, about, *source);
            let Verdict::NeedsToken { right, unsure } = verdict else { return Ok(()) };
            if granted.contains(&right) {
                return Ok(());
            }
            if let Some(token) = token {
                match self.reviews.check(token, &right).await {
                    Ok(()) => granted.push(right),
                    Err(ReviewError::Refused(error)) => return Err(right.refusal(*source, &error)),
                    Err(ReviewError::Unknown(why)) => {
                        return Err(unavailable(format!("{why}: try again")));
                    }
                }
                continue;
            }
            if trust::may_be_a_pod(*source) && !looked_up {
                looked_up = true;
                if self.look_up(writer, seen, about, *source).await? {
                    continue;
                }
            }
            match unsure {
                Some((namespace, job)) if Instant::now() < until => {
                    let job = Key::new(namespace.as_str(), &job);
                    loop {
                        match timeout_at(until, changes.recv()).await {
                            Ok(Ok(changed)) if changed != job => {}
                            Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => break,
                            Ok(Err(RecvError::Closed)) => {
                                return Err(right.refusal(*source, &TokenError::Missing));
                            }
                        }
                    }
                }
                _ => return Err(right.refusal(*source, &TokenError::Missing)),
            }
        }
    }

    /// Asks the API server for the pod that the request names, which is nearly always the one that calls. False if the
    /// address was looked up a moment ago.
    async fn look_up(
        &self,
        writer: &Writer,
        seen: &Seen<'_>,
        about: (Route, &Subject),
        source: IpAddr,
    ) -> Result<bool, Refusal> {
        let Subject::Pods(named) = about.1 else { return Ok(false) };
        let Some(name) = named.pods.first() else { return Ok(false) };
        if !self.lookups.begin(source, Instant::now()) {
            return Ok(false);
        }
        let _permit = self.lookups.permits.acquire().await;
        // Others have waited for us, and the watch may have brought it.
        if trust::judge(seen, self.settings.trust, about, source) != Verdict::Admitted {
            let found = seen.look_up(writer, &named.namespace, name).await;
            found.map_err(|error| unavailable(format!("{error}: try again")))?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_looked_up_once_a_second_and_not_more_strangers_than_can_be_remembered() {
        let (lookups, now) = (Lookups::default(), Instant::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        assert!(lookups.begin(address(0), now) && !lookups.begin(address(0), now));
        assert!(lookups.begin(address(0), now + NEGATIVE_FOR));
        let turns = (1..2 * MOST_NEGATIVE as u32).filter(|one| lookups.begin(address(*one), now));
        assert_eq!(turns.count(), MOST_NEGATIVE - 1);
        assert!(lookups.begin(address(7), now + 2 * NEGATIVE_FOR), "and then again");
    }
}
