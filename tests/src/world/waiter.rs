//! What the init container `wait-ranktable` does on a simulated node.

use std::path::PathBuf;
use std::time::Duration;

use muster_agent::wait;
use muster_sandbox::kubelet::ContainerContext;
use serde_json::Value;

/// How long the waiter sleeps before it looks whether its pod is being stopped.
const TURN: Duration = Duration::from_millis(500);

/// The agent's own waiter, on the file that its command names.
pub async fn agent(context: ContainerContext) -> i32 {
    let Some(named) = argument(&context, "--file") else { return 2 };
    let Some(file) = context.path(&named) else { return 2 };
    let host = file.display().to_string();
    while !context.stop.is_cancelled() {
        let file = file.clone();
        let waited = tokio::task::spawn_blocking(move || {
            let mut log = Vec::new();
            let waited = wait::wait(&file, Some(TURN), &mut log).map_err(|error| error.reason());
            (waited, log)
        });
        match waited.await {
            Ok((Ok(()), log)) => {
                // In its container the file has the name that the command says.
                let log = String::from_utf8_lossy(&log).replace(&host, &named);
                log.lines().for_each(|line| context.log.line(line));
                return 0;
            }
            Ok((Err("timed-out"), _)) => {}
            _ => return 1,
        }
    }
    143
}

/// The seed's loop: until the file is there and not empty.
pub async fn shell(context: ContainerContext) -> i32 {
    let Some(file) = script(&context).and_then(|file| context.path(&file)) else { return 2 };
    loop {
        if std::fs::metadata(&file).is_ok_and(|found| found.len() > 0) {
            return 0;
        }
        tokio::select! {
            () = context.stop.cancelled() => return 143,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
}

fn command(context: &ContainerContext) -> Vec<String> {
    let containers = context.pod["spec"]["initContainers"].as_array();
    let own = containers.into_iter().flatten().find(|one| one["name"] == *context.container);
    let words = own.and_then(|own| own["command"].as_array()).into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn argument(context: &ContainerContext, flag: &str) -> Option<String> {
    let command = command(context);
    let at = command.iter().position(|word| word == flag)?;
    command.get(at + 1).cloned()
}

/// The path in `RANKTABLE_FILE="…"`.
fn script(context: &ContainerContext) -> Option<String> {
    let text = command(context).pop()?;
    let (_, rest) = text.split_once("RANKTABLE_FILE=\"")?;
    rest.split_once('"').map(|(path, _)| path.to_owned())
}

/// Where a pod's table is on its simulated node.
pub fn table_file(root: &std::path::Path, uid: &str, file: &str) -> PathBuf {
    root.join(format!(
        "var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/ranktable/{file}"
    ))
}
