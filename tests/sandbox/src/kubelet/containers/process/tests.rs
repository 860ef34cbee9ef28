use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::kubelet::Logs;

/// Long for a machine that has much to do, short for one that waits for a sleeping process.
const LIMIT: Duration = Duration::from_secs(20);

struct Shell {
    root: tempfile::TempDir,
    logs: Logs,
}

impl Shell {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), logs: Logs::default() }
    }

    fn start(&self, script: &str) -> tokio::task::JoinHandle<i32> {
        let context = ContainerContext {
            pod: Arc::new(json!({ "metadata": { "uid": "u" } })),
            container: "c".into(),
            node: "n".into(),
            root: self.root.path().to_owned(),
            volumes: Default::default(),
            mounts: Vec::new(),
            devices: Default::default(),
            env: Default::default(),
            stop: Default::default(),
            log: self.logs.sink("ns", "p", "c", Clock::machine()),
        };
        let command = Command::of(&json!({ "command": ["/bin/sh", "-c", script] })).unwrap();
        tokio::spawn(command.run(context))
    }

    async fn run(&self, script: &str) -> (i32, Vec<String>) {
        let code = tokio::time::timeout(LIMIT, self.start(script)).await.unwrap().unwrap();
        (code, self.logs.get("ns", "p", "c"))
    }

    /// The process whose id the script wrote as its first line.
    async fn noted(&self) -> Pid {
        let mut changes = self.logs.changes();
        loop {
            if let Some(line) = self.logs.get("ns", "p", "c").first() {
                return Pid::from_raw(line.parse().unwrap());
            }
            tokio::time::timeout(LIMIT, changes.changed()).await.unwrap().unwrap();
        }
    }
}

/// Waits until the process has ended; one that nobody has waited for yet has ended too.
async fn ended(pid: Pid) {
    let runs = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => false,
    };
    let waiting = async {
        while runs() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap();
}

#[tokio::test]
async fn a_line_that_is_no_text_does_not_end_the_log() {
    let (code, log) = Shell::new().run(r"printf 'a\377b\n'; echo after; printf rest").await;
    assert_eq!((code, log), (0, vec!["a\u{fffd}b".into(), "after".into(), "rest".into()]));
}

#[tokio::test]
async fn a_very_long_line_is_cut() {
    let script = format!("printf '%{}d\\n%{}d\\n\\n' 1 2", LONGEST_LINE, LONGEST_LINE + 1);
    let (code, log) = Shell::new().run(&script).await;
    let lengths: Vec<usize> = log.iter().map(String::len).collect();
    assert_eq!((code, lengths), (0, vec![LONGEST_LINE, LONGEST_LINE, 1, 0]));
}

#[tokio::test]
async fn a_container_ends_with_its_first_process_and_takes_the_others_along() {
    let shell = Shell::new();
    let (code, _) = shell.run("sleep 300 & echo $!; exit 3").await;
    assert_eq!(code, 3);
    ended(shell.noted().await).await;
}

#[tokio::test]
async fn a_child_that_left_the_group_does_not_keep_the_container() {
    let shell = Shell::new();
    let (code, _) = shell.run("setsid sleep 30 & echo $!; sleep 0.2; exit 4").await;
    assert_eq!(code, 4);
    // It may be gone already; nothing else ends it.
    let _killed = kill(shell.noted().await, Signal::SIGKILL);
}

#[tokio::test]
async fn a_killed_container_leaves_no_process() {
    let shell = Shell::new();
    let running = shell.start("sleep 300 & echo $!; wait");
    let child = shell.noted().await;
    running.abort();
    ended(child).await;
}
