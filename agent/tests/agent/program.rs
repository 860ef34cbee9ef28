//! The program itself, as a process on a simulated node.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use muster_sandbox::Sandbox;
use muster_sandbox::hardware::Profile;
use muster_sandbox::kubelet::NodeSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_muster-agent");
const NODE: &str = "npu-0";
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer: its status and its body.
async fn ask(address: &str, request: &str) -> (u16, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn get(address: &str, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"))
        .await
}

async fn put(address: &str, path: &str, body: &str, more: &str) -> (u16, String) {
    let length = body.len();
    ask(
        address,
        &format!(
            "PUT {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n{body}"
        ),
    )
    .await
}

/// Starts the program; returns its status address.
async fn start(sandbox: &Sandbox, root: &Path, state: &Path, more: &[&str]) -> (Child, String) {
    let mut child = Command::new(PROGRAM)
        .args(["run", "--node", NODE, "--listen", "127.0.0.1:0", "--log-format", "json"])
        .arg("--sysroot")
        .arg(root)
        .arg("--state-dir")
        .arg(state)
        .args(more)
        .env_clear()
        .env("KUBECONFIG", sandbox.kubeconfig_path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = tokio::time::timeout(PATIENCE, async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let line: Value = serde_json::from_str(&line).expect("log lines are JSON");
            if line["message"] == "started" {
                return line["address"].as_str().unwrap().to_owned();
            }
        }
        panic!("the agent ended");
    });
    let address = address.await.unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address)
}

async fn until_ready(address: &str) {
    let ready = async {
        while get(address, "/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.unwrap();
}

async fn stop(mut child: Child) {
    kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    assert!(ended.expect("it ends when it is told to").unwrap().success());
}

async fn node(root: &Path) -> Sandbox {
    let node = NodeSpec::new(NODE, Profile::Ascend910b8, 0, root);
    Sandbox::builder().nodes(vec![node]).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_tells_what_it_knows_and_ends_when_told_to() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = node(root.path()).await;
    let (child, address) = start(&sandbox, root.path(), state.path(), &[]).await;
    until_ready(&address).await;
    assert_eq!(get(&address, "/healthz").await, (200, "ok\n".to_owned()));

    let devices: Value = serde_json::from_str(&get(&address, "/v1/devices").await.1).unwrap();
    assert_eq!(devices["devices"].as_array().unwrap().len(), 8);
    assert_eq!(devices["devices"][3]["port"], "down");
    for path in ["/v1", "/v1/pods", "/v1/tables", "/v1/link", "/v1/problems"] {
        let (status, body) = get(&address, path).await;
        assert_eq!(status, 200, "{path}");
        serde_json::from_str::<Value>(&body)
            .unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    }
    let problems: Value = serde_json::from_str(&get(&address, "/v1/problems").await.1).unwrap();
    let reasons: Vec<&str> =
        problems.as_array().unwrap().iter().filter_map(|p| p["reason"].as_str()).collect();
    assert_eq!(reasons, ["link-down"], "the profile has one bad port");

    let (status, page) = get(&address, "/").await;
    assert_eq!(status, 200);
    for word in ["npu-0", "NPU7", "10.20.0.2", "no link", "HCCS", "Not configured"] {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(get(&address, "/none").await.0, 404);

    let metrics = get(&address, "/metrics").await.1;
    for line in [
        "muster_agent_device_usable{vendor=\"ascend\",device=\"7\"} 1",
        "muster_agent_device_port_up{vendor=\"ascend\",device=\"3\"} 0",
        "muster_agent_problems{area=\"ascend\"} 1",
        "muster_agent_problems_raised_total{area=\"ascend\",reason=\"link-down\"} 1",
        "# TYPE muster_agent_delivery_duration_seconds histogram",
        "# TYPE muster_agent_annotation_latency_seconds histogram",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.starts_with("muster_agent_"), "{line}");
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(!name.contains("milli"), "base units: {name}");
        assert_eq!(name.matches("muster_agent").count(), 1, "{name}");
    }

    assert_eq!(get(&address, "/loglevel").await.1, "info\n");
    assert_eq!(put(&address, "/loglevel", "debug", "").await, (200, "debug\n".to_owned()));
    assert_eq!(get(&address, "/loglevel").await.1, "debug\n");
    let (status, why) = put(&address, "/loglevel", "a=b=c", "").await;
    assert!(status == 400 && why.contains("is no log level"), "{status} {why}");
    assert_eq!(put(&address, "/loglevel", &"x".repeat(4096), "").await.0, 413);
    assert_eq!(put(&address, "/loglevel", "trace", "origin: http://evil.example\r\n").await.0, 403);
    let rebound = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(ask(&address, rebound).await.0, 421);
    assert_eq!(get(&address, "/loglevel").await.1, "debug\n");

    stop(child).await;
    sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_its_coordinator_is_not_ready_says_why_and_does_the_rest() {
    let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sandbox = node(root.path()).await;
    let token = state.path().join("token");
    fs::write(&token, "t").unwrap();
    let more = ["--coordinator", "https://127.0.0.1:1", "--token-file", token.to_str().unwrap()];
    let (child, address) = start(&sandbox, root.path(), state.path(), &more).await;
    let told = async {
        loop {
            let problems = get(&address, "/v1/problems").await.1;
            if problems.contains("\"link\"") {
                return problems;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let problems = tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert!(problems.contains("ca.crt"), "the missing file is named: {problems}");
    let (status, why) = get(&address, "/readyz").await;
    assert_eq!((status, why.as_str()), (503, "there is no stream to the coordinator\n"));
    let devices: Value = serde_json::from_str(&get(&address, "/v1/devices").await.1).unwrap();
    assert_eq!(devices["devices"].as_array().unwrap().len(), 8);
    stop(child).await;
    sandbox.stop().await;
}

async fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).env_clear().output().await.unwrap()
}

#[tokio::test]
async fn discover_prints_every_profile_as_json_and_as_tables() {
    for (profile, devices, word) in [
        (Profile::Ascend910a8, 8, "HCCS"),
        (Profile::Ascend910b8, 8, "10.20.0.2"),
        (Profile::AscendA316, 16, "HCCS_SW"),
        (Profile::Ascend310p, 8, "310P3"),
        (Profile::NvidiaH1008, 8, "NV18"),
        (Profile::Cpu, 0, "no Ascend or NVIDIA devices"),
    ] {
        let root = tempfile::tempdir().unwrap();
        profile.lay_out(root.path(), 0).unwrap();
        let root = root.path().to_str().unwrap();
        let json = run(&["discover", "--sysroot", root, "-o", "json"]).await;
        assert!(json.status.success(), "{profile}: {json:?}");
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["devices"].as_array().unwrap().len(), devices, "{profile}");
        let table = run(&["discover", "--sysroot", root]).await;
        let text = String::from_utf8(table.stdout).unwrap();
        assert!(table.status.success() && text.contains(word), "{profile}: {text}");
    }
}

#[tokio::test]
async fn bad_arguments_are_told_with_a_remedy() {
    for (args, code, words) in [
        (vec!["discover", "--sysroot", "/none/such"], 1, "--sysroot /none/such"),
        (vec!["discover", "-o", "xml"], 2, "table, json"),
        (vec!["run"], 2, "--node"),
        (vec!["run", "--node", "n", "--poll", "soon"], 2, "try 10s"),
        (vec!["run", "--node", "n", "--server-id", "eth0"], 2, "--server-id"),
        (vec!["run", "--node", "n", "--resource", "x"], 2, "ascend:"),
        (vec!["run", "--node", "n", "--poll", "0s"], 2, "too short"),
        (vec!["run", "--node", "n", "--coordinator", "http://hub:1"], 2, "https://HOST:PORT"),
        (vec!["run", "--node", "n", "--log", "nonsense"], 1, "is no log level"),
        (vec!["wait", "--file", "/none/such/file", "--timeout", "10ms"], 3, "/none/such"),
    ] {
        let output = run(&args).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
