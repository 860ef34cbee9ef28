//! What the commands of simulated containers do that people write into examples: sleep, true, false.

use std::time::Duration;

use muster_sandbox::kubelet::{ContainerContext, Containers};
use serde_json::Value;

use crate::world::waiter;

/// Exit code of a command that ended because it was told to.
const TERMINATED: i32 = 143;

/// What a command line does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Sleeps that long and ends well; without a time until it is told to end.
    Sleep(Option<Duration>),
    /// Ends at once with this code.
    End(i32),
}

/// Containers that do what their command line says, and init containers that wait for their table. All others run as the
/// sandbox simulates them.
pub fn containers() -> Containers {
    let injected = |pod: &Value, name: &str, program: &str| {
        let mut init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
        init.any(|one| one["name"] == name && one.to_string().contains(program))
    };
    Containers::default()
        .on(move |pod, name| injected(pod, name, "muster-agent"), waiter::agent)
        .on(move |pod, name| injected(pod, name, "RANKTABLE_FILE="), waiter::shell)
        .on(|pod, name| act_of(pod, name).is_some(), perform)
}

async fn perform(context: ContainerContext) -> i32 {
    match act_of(&context.pod, &context.container) {
        Some(Act::Sleep(time)) => {
            let over = async {
                match time {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => 0,
                () = context.stop.cancelled() => TERMINATED,
            }
        }
        Some(Act::End(code)) => code,
        None => 0,
    }
}

fn act_of(pod: &Value, name: &str) -> Option<Act> {
    let spec = &pod["spec"];
    let lists = ["initContainers", "containers"].map(|field| spec[field].as_array());
    let container = lists.into_iter().flatten().flatten().find(|one| one["name"] == name)?;
    let words = ["command", "args"].map(|field| container[field].as_array());
    let words: Vec<&str> =
        words.into_iter().flatten().flatten().filter_map(Value::as_str).collect();
    understand(&words)
}

/// What a command line does, if it is one of the few that are known here.
fn understand(words: &[&str]) -> Option<Act> {
    let named = words.first()?.rsplit('/').next()?;
    match (named, &words[1..]) {
        ("sh" | "bash", ["-c", script]) => {
            let mut acts = script.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
            let (first, more) = (acts.next()?, acts.next());
            // Of a longer script this would be half the truth.
            more.is_none().then(|| understand(&first.split_whitespace().collect::<Vec<_>>()))?
        }
        ("sleep", ["infinity" | "inf"]) => Some(Act::Sleep(None)),
        ("sleep", [time]) => duration(time).map(|time| Act::Sleep(Some(time))),
        ("true", _) => Some(Act::End(0)),
        ("false", _) => Some(Act::End(1)),
        ("exit", [code]) => code.parse().ok().map(Act::End),
        _ => None,
    }
}

/// A time as `sleep` reads it: seconds, or with a unit.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_examples_are_understood_and_others_are_left_to_the_sandbox() {
        let sleep = |seconds| Some(Act::Sleep(Some(Duration::from_secs(seconds))));
        for (words, wanted) in [
            (&["sleep", "infinity"][..], Some(Act::Sleep(None))),
            (&["/bin/sleep", "5"], sleep(5)),
            (&["sleep", "2m"], sleep(120)),
            (&["sleep", "soon"], None),
            (&["sh", "-c", "sleep 3;"], sleep(3)),
            (&["bash", "-c", "true"], Some(Act::End(0))),
            (&["sh", "-c", "exit 3"], Some(Act::End(3))),
            (&["sh", "-c", "echo a; sleep 1"], None),
            (&["false"], Some(Act::End(1))),
            (&["python", "train.py"], None),
            (&[], None),
        ] {
            assert_eq!(understand(words), wanted, "{words:?}");
        }
    }

    #[test]
    fn arguments_follow_the_command_of_the_container_that_is_asked_for() {
        let pod = serde_json::json!({"spec": {"containers": [
            {"name": "a", "command": ["sleep"], "args": ["infinity"]}, {"name": "b"}]}});
        assert_eq!(act_of(&pod, "a"), Some(Act::Sleep(None)));
        assert_eq!((act_of(&pod, "b"), act_of(&pod, "c")), (None, None));
    }
}
