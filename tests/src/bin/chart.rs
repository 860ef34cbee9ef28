//! Looks at what the Helm chart renders: `helm template … | chart NAME`. Exits 0 if every rule holds.

use std::io::Read;
use std::process::ExitCode;

use clap::Parser;
use muster_tests::chart::{Rendered, shipped};

/// Checks the objects that `helm template` prints, from stdin.
#[derive(Parser)]
struct Args {
    /// What the rendering is called in the report.
    name: String,
    /// It has the default values, in muster-system: the files of deploy/ must be in it as they are.
    #[arg(long)]
    defaults: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let Args { name, defaults } = Args::parse();
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let rendered = Rendered::read(&text)?;
    let mut findings = rendered.findings();
    if defaults {
        findings.push(shipped::same(&rendered)?);
    }
    let mut failed = 0;
    for finding in &findings {
        for broken in &finding.broken {
            println!("FAILED   {name}: {}: {broken}", finding.rule);
        }
        failed += usize::from(!finding.broken.is_empty());
    }
    let objects = rendered.objects().count();
    println!("{name}: {objects} objects, {} rules hold, {failed} do not", findings.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
