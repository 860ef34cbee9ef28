//! The same program as a plugin of kubectl; see `kubectl muster --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    musterctl::program("kubectl muster")
}
