//! The program; see `musterctl --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    musterctl::program("musterctl")
}
