//! Waiting for something to become so, with a time limit and an error that says what was seen last.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep, timeout_at};

/// How long a wait lasts before it is given up.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(20);

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    /// It is so.
    Yes(T),
    /// Not yet; this is what is there.
    NotYet(String),
}

/// Looks again and again until `look` has seen `what`. An error of a look is not the end: servers are away at times.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    look: impl AsyncFnMut() -> anyhow::Result<Seen<T>>,
) -> anyhow::Result<T> {
    until_told(what, limit, look, |_| Ok(())).await
}

/// The same; `tell` hears what is there whenever it has changed.
pub async fn until_told<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Seen<T>>,
    mut tell: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<T> {
    let end = Instant::now() + limit;
    let mut last = String::from("nothing: the first look did not return");
    loop {
        let seen = match timeout_at(end, look()).await {
            Ok(Ok(Seen::Yes(found))) => return Ok(found),
            Ok(Ok(Seen::NotYet(seen))) => seen,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => last.clone(),
        };
        if seen != last {
            tell(&seen)?;
            last = seen;
        }
        if Instant::now() >= end {
            bail!("waited {} s for {what}; last seen: {last}", limit.as_secs_f32());
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_is_given_up_says_what_it_saw_last() {
        let mut looks = 0;
        let waited: anyhow::Result<()> = until("the moon", PAUSE * 3, async || {
            looks += 1;
            anyhow::ensure!(looks > 1, "clouds");
            Ok(Seen::NotYet("stars".to_owned()))
        })
        .await;
        assert_eq!(waited.unwrap_err().to_string(), "waited 0.06 s for the moon; last seen: stars");
    }

    #[tokio::test]
    async fn an_error_of_a_look_does_not_end_the_wait() {
        let mut looks = 0;
        let found = until("the moon", PATIENCE, async || {
            looks += 1;
            anyhow::ensure!(looks > 1, "clouds");
            Ok(Seen::Yes(looks))
        })
        .await;
        assert_eq!(found.unwrap(), 2);
    }
}
