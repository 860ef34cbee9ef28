//! Events go an hour after they were last written, by the sandbox's clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_objects::meta;
use serde_json::Value;

use crate::api::Api;
use crate::store::Expect;

const KEPT: SignedDuration = SignedDuration::from_hours(1);
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Sweeps until the server stops.
pub async fn run(api: Arc<Api>) {
    loop {
        let pause = api.clock.sleep(SWEEP_EVERY);
        sweep(&api);
        tokio::select! {
            () = api.stop.cancelled() => return,
            () = pause => {}
        }
    }
}

fn sweep(api: &Api) {
    let now = api.clock.now();
    for event in api.store.list("events", None) {
        if written(&event.value).is_none_or(|time| now.duration_since(time) < KEPT) {
            continue;
        }
        let name = meta::name(&event.value).to_owned();
        let key = (meta::namespace(&event.value).to_owned(), name);
        let expect = Expect::Revision(event.revision);
        if api.store.remove("events", &key, expect, event.value.clone()).is_err() {
            tracing::debug!(event = key.1, "an event was written while it expired: it stays");
        }
    }
}

/// When the event was last written: its creation, or the latest change that anybody made to it.
fn written(event: &Value) -> Option<Timestamp> {
    let metadata = event.get("metadata")?;
    let time = |value: Option<&Value>| value?.as_str()?.parse::<Timestamp>().ok();
    let managed = metadata.get("managedFields").and_then(Value::as_array).into_iter().flatten();
    let changes = managed.filter_map(|entry| time(entry.get("time")));
    changes.chain(time(metadata.get("creationTimestamp"))).max()
}
