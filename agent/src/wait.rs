//! Waiting for a table: `muster-agent wait --file F [--timeout T]`, the program of init containers.
//!
//! It sleeps in the kernel until the directory of the file changes, and looks again. There is no polling, unless the
//! system has no inotify left to give: then it says so and looks every second. The directory may come later; the
//! nearest one that is there is watched until then. Links are followed: a ConfigMap volume is made of them.
//!
//! ```text
//!   watch the directory ─▶ look ─┬─ complete ──────▶ print it, 0
//!          ▲                     └─ not yet: why ─┐
//!          └──── something changed ◀── sleep ◀────┘── time is up ▶ 3      SIGTERM ▶ 143
//! ```
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | the table is complete |
//! | 1 | an error: the directory or the file cannot be read |
//! | 2 | wrong arguments |
//! | 3 | time is up; standard error says what was missing |
//! | 130, 143 | SIGINT, SIGTERM |
//!
//! Call [`main`] from the first thread, before others are started: signals are taken by that thread.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_program::duration;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub mod table;
mod watch;

#[cfg(test)]
mod tests;

use table::{NotYet, TableState};
use watch::{Watch, Woken};

/// Arguments of `muster-agent wait`.
#[derive(Clone, Debug, clap::Args)]
pub struct WaitArgs {
    /// The table to wait for. A name that ends in .json must hold a JSON object; if it has a status, that must be "completed".
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// How long to wait: 90s, 10m, 1h30m, or seconds. Without it, for ever.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Print nothing but errors.
    #[arg(long)]
    pub quiet: bool,
}

/// Why waiting ended without a table.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// Time is up.
    #[error("{file}: not ready after {time:.1?}: {why}", file = .file.display(), time = .after)]
    TimedOut {
        /// The table that was waited for.
        file: PathBuf,
        /// How long was waited.
        after: Duration,
        /// What was missing at the end.
        why: NotYet,
    },
    /// The process was told to end.
    #[error("{file}: told to end by signal {signal} while waiting: {why}", file = .file.display())]
    Ended {
        /// The table that was waited for.
        file: PathBuf,
        /// By which signal.
        signal: i32,
        /// What was missing at the end.
        why: NotYet,
    },
    /// The path names no file.
    #[error("{0:?} names no file: give the path of the table")]
    NoName(PathBuf),
    /// Something cannot be read.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Waits until a table is complete, and prints it. Says what it is waiting for, each time that changes.
pub fn wait(file: &Path, timeout: Option<Duration>, out: &mut impl Write) -> Result<(), WaitError> {
    wait_or_end(file, timeout, out, None)
}

fn wait_or_end(
    file: &Path,
    timeout: Option<Duration>,
    out: &mut impl Write,
    signals: Option<&SignalFd>,
) -> Result<(), WaitError> {
    if file.file_name().is_none() {
        return Err(WaitError::NoName(file.to_owned()));
    }
    let begun = Instant::now();
    let mut watch = Watch::new();
    if let Some(problem) = watch.problem() {
        // The log is for people; a closed one does not matter.
        let _closed = writeln!(out, "inotify: {problem}; looking every second instead");
    }
    let mut told = None;
    loop {
        // First the watch, then the look: what comes in between wakes us.
        let nearest = watch.follow(file)?;
        let why = match table::read(file)? {
            TableState::Complete(table) => {
                let printed = table.print(file, out);
                return printed
                    .map_err(|error| WaitError::Io { path: "standard output".into(), error });
            }
            TableState::NotYet(why) => why,
        };
        if told.as_ref() != Some(&why) {
            let _closed = writeln!(out, "waiting for {}: {why}", file.display());
            let _closed = out.flush();
            told = Some(why.clone());
        }
        // A directory came while we looked: watch that one.
        if watch::nearest_directory(file) != nearest {
            continue;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        if left == Some(Duration::ZERO) {
            return Err(WaitError::TimedOut { file: file.into(), after: begun.elapsed(), why });
        }
        match watch.sleep(left, signals) {
            Ok(Woken::Changed | Woken::TimedOut) => {}
            Ok(Woken::Signal(signal)) => {
                return Err(WaitError::Ended { file: file.into(), signal, why });
            }
            Err(errno) => return Err(WaitError::Io { path: file.into(), error: errno.into() }),
        }
    }
}

/// Runs the program.
pub fn main(args: WaitArgs) -> ExitCode {
    let WaitArgs { file, timeout, quiet } = args;
    // As process 1 of a container, a signal without a handler would be ignored: take it from a descriptor.
    let signals = take_signals();
    if let Err(error) = &signals {
        eprintln!("signals: {error}; SIGTERM may be ignored");
    }
    let signals = signals.as_ref().ok();
    let result = match quiet {
        true => wait_or_end(&file, timeout, &mut io::sink(), signals),
        false => wait_or_end(&file, timeout, &mut io::stdout().lock(), signals),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            error.code()
        }
    }
}

fn take_signals() -> Result<SignalFd, Errno> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

// === impl WaitError ===

impl WaitError {
    /// The kind of error, in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } => "timed-out",
            Self::Ended { .. } => "ended",
            Self::NoName(_) => "no-name",
            Self::Io { .. } => "io",
        }
    }

    /// With which code the program ends.
    pub fn code(&self) -> ExitCode {
        match self {
            Self::TimedOut { .. } => ExitCode::from(3),
            Self::Ended { signal, .. } => ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)),
            Self::NoName(_) => ExitCode::from(2),
            Self::Io { .. } => ExitCode::FAILURE,
        }
    }
}
