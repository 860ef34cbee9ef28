//! What containers do that the sandbox does not play by itself: those that wait for their table.

use muster_sandbox::kubelet::Containers;
use serde_json::Value;

use crate::world::waiter;

/// Init containers that wait for their table. All others run as the sandbox simulates them: `sleep`, `true` and the like as they
/// say.
pub fn containers() -> Containers {
    let injected = |pod: &Value, name: &str, program: &str| {
        let mut init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
        init.any(|one| one["name"] == name && one.to_string().contains(program))
    };
    Containers::default()
        .on(move |pod, name| injected(pod, name, "muster-agent"), waiter::agent)
        .on(move |pod, name| injected(pod, name, "RANKTABLE_FILE="), waiter::shell)
}
