//! The program as a test runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code, stdout, stderr.
pub type ProgramOutput = (i32, String, String);

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program in a folder, without anybody's kubeconfig.
pub fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> ProgramOutput {
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
}

pub fn musterctl_in(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    run_in(folder, env!("CARGO_BIN_EXE_musterctl"), arguments)
}

/// `musterctl`, run in the repository.
pub fn musterctl(arguments: &[&str]) -> ProgramOutput {
    musterctl_in(&root(), arguments)
}
