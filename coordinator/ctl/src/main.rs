//! The program; see `musterctl --help`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use musterctl::args::Args;

fn main() -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let ended = musterctl::run(Args::parse(), &mut out).and_then(|found| {
        out.flush()?;
        Ok(found)
    });
    match ended {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(error) => {
            musterctl::say(&error);
            ExitCode::from(error.code())
        }
    }
}
