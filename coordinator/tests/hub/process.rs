//! The program itself: two processes, one API server, signals and flags.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use muster_sandbox::Sandbox;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::world::LIMIT;

const PROGRAM: &str = env!("CARGO_BIN_EXE_muster-coordinator");

fn command(kubeconfig: &Path) -> Command {
    command_with(kubeconfig, "3s")
}

fn command_with(kubeconfig: &Path, lease: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .args(["--namespace", "default", "--lease", lease, "--certificate-name", "localhost"])
        .args(["--hub", "127.0.0.1:0", "--webhooks", "127.0.0.1:0", "--listen", "127.0.0.1:0"])
        .args(["--di-server", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn run(command: &mut Command) -> Output {
    tokio::time::timeout(LIMIT, command.output()).await.expect("it ends").unwrap()
}

fn words(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Starts one with this name.
fn start(sandbox: &Sandbox, name: &str, lease: &str) -> Child {
    let mut command = command_with(&sandbox.kubeconfig_path(), lease);
    command.args(["--identity", name]).spawn().unwrap()
}

/// Waits until it has logged something with these words.
async fn says(child: &mut Child, words: &str) {
    let log = child.stderr.as_mut().expect("a pipe");
    let mut lines = BufReader::new(log).lines();
    let heard = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(words) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(LIMIT, heard).await.expect(words), "it never said {words:?}");
}

fn signal(child: &Child, signal: &str) {
    let pid = child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

/// Waits until somebody with this name leads; the epoch, and all that was seen on the way.
async fn leader(sandbox: &Sandbox, name: &str) -> (u64, Vec<String>) {
    let leases: Api<Lease> = Api::namespaced(sandbox.client(), "default");
    let mut seen: Vec<String> = Vec::new();
    let end = Instant::now() + LIMIT;
    loop {
        if let Ok(lease) = leases.get("muster-coordinator").await {
            let holder = lease.spec.unwrap_or_default().holder_identity.unwrap_or_default();
            let holder = holder.split('_').next().unwrap_or_default().to_owned();
            if seen.last() != Some(&holder) {
                seen.push(holder);
            }
            if seen.last().is_some_and(|last| last == name) {
                let annotations = lease.metadata.annotations.unwrap_or_default();
                return (annotations["muster.dev/epoch"].parse().unwrap(), seen);
            }
        }
        assert!(Instant::now() < end, "{name} never led: {seen:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_9_another_process_leads_when_the_lease_is_over() {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let mut a = start(&sandbox, "a", "3s");
    let (first, _) = leader(&sandbox, "a").await;
    let mut b = start(&sandbox, "b", "3s");
    says(&mut b, "standing by").await;
    a.kill().await.unwrap();
    let (second, seen) = leader(&sandbox, "b").await;
    assert_eq!(seen, ["a", "b"], "the lease was never given back");
    assert!(second > first, "epochs {first}, {second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_sigterm_another_process_leads_without_waiting_for_the_lease() {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    // Nobody waits that long here (see LIMIT): who leads next was given the lease.
    let mut b = start(&sandbox, "b", "90s");
    let (first, _) = leader(&sandbox, "b").await;
    let mut c = start(&sandbox, "c", "90s");
    says(&mut c, "standing by").await;
    signal(&b, "-TERM");
    let (second, seen) = leader(&sandbox, "c").await;
    assert!(matches!(&*seen.join(" "), "b c" | "b  c" | " c" | "c"), "{seen:?}");
    assert!(second > first, "epochs {first}, {second}");
    let ended = tokio::time::timeout(LIMIT, b.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
    signal(&c, "-TERM");
    assert_eq!(tokio::time::timeout(LIMIT, c.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test]
async fn help_and_mistakes_in_flags_say_what_to_do() {
    let nowhere = Path::new("/nonexistent/kubeconfig");
    let help = run(command(nowhere).arg("--help")).await;
    assert_eq!(help.status.code(), Some(0));
    for word in ["--lease", "--namespace", "Examples:", "KUBECONFIG"] {
        assert!(words(&help).contains(word), "{}", words(&help));
    }
    for (flag, value) in [
        ("--lease", "soon"),
        ("--hub", "here"),
        ("--device-truth", "rumour"),
        ("--no-such-flag", ""),
        ("--agent-account", "agents"),
    ] {
        let ended = run(Command::new(PROGRAM).env_clear().args([flag, value])).await;
        assert_eq!(ended.status.code(), Some(2), "{flag}: {}", words(&ended));
        assert!(words(&ended).contains(flag), "{flag}: {}", words(&ended));
    }
}

#[tokio::test]
async fn without_an_api_it_says_so_and_ends_or_waits_and_obeys_signals() {
    let ended = run(&mut command(Path::new("/nonexistent/kubeconfig"))).await;
    assert_eq!(ended.status.code(), Some(1), "{}", words(&ended));
    assert!(words(&ended).contains("no Kubernetes API"), "{}", words(&ended));

    // An address where nobody answers: it may come back.
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let text = std::fs::read_to_string(sandbox.kubeconfig_path()).unwrap();
    let port = sandbox.url().rsplit(':').next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, text.replace(&format!(":{port}"), ":1")).unwrap();
    let mut child = command(&file).spawn().unwrap();
    says(&mut child, "Lease default/muster-coordinator cannot be read").await;
    signal(&child, "-TERM");
    let ended = tokio::time::timeout(LIMIT, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
}
