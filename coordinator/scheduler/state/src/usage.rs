//! What queues have used of late: which queries are asked at an instant, and what their answers mean.
//!
//! ```text
//!   configuration, now ──▶ query, one for each kind of resource and side ──▶ (edge: Prometheus) ──▶ read ──▶ parts of the cluster
//! ```

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::config::{Metrics, UsageDb, Window};
use muster_scheduler::input::Usage;
use serde::Deserialize;

/// More queues than anybody has.
const MOST: usize = 20_000;
/// The label that names a queue.
const QUEUE: &str = "queue_name";

/// A kind of resource whose use counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Devices.
    Gpu,
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
}

/// Two queries of one kind of resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Of what.
    pub resource: Resource,
    /// What the cluster had.
    pub capacity: String,
    /// What queues had.
    pub allocation: String,
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerError(pub String);

/// Answers of one kind of resource: what queues had, and the cluster.
pub type Answers = (Resource, Vec<(String, f64)>, Option<f64>);

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

/// What is asked now; nothing while the window is empty.
pub fn queries(usage: &UsageDb, now: Timestamp) -> Vec<Queries> {
    let Some(size) = size(&usage.window, now) else { return Vec::new() };
    let over = |metric: &str| {
        let decayed = match usage.half_life {
            None => metric.to_owned(),
            Some(half) => {
                let (now, half) = (now.as_second(), half.as_secs_f64());
                format!("(({metric}) * (0.5^(({now} - time()) / {half:.6})))")
            }
        };
        format!("sum_over_time(({decayed})[{}:{}])", written(size), written(usage.resolution))
    };
    let of = |resource, metrics: &Metrics| Queries {
        resource,
        capacity: over(&metrics.capacity),
        allocation: over(&metrics.allocation),
    };
    vec![
        of(Resource::Gpu, &usage.gpu),
        of(Resource::Cpu, &usage.cpu),
        of(Resource::Memory, &usage.memory),
    ]
}

/// How long the window is that ends now; none if it has not begun.
fn size(window: &Window, now: Timestamp) -> Option<SignedDuration> {
    let since = |start: Timestamp| {
        let size = now.duration_since(start);
        (size >= SignedDuration::from_secs(1)).then_some(size)
    };
    match window {
        Window::Sliding(size) => Some(*size),
        Window::Tumbling(start, size) => {
            let passed = since(*start)?;
            let (passed, size) = (passed.as_nanos(), size.as_nanos().max(1));
            // A window that ends now has not ended yet, as with KAI.
            let within = (passed - 1).rem_euclid(size) + 1;
            let within = SignedDuration::try_from_nanos_i128(within)?;
            (within >= SignedDuration::from_secs(1)).then_some(within)
        }
        Window::Cron(cron) => since(cron.before(now)?),
    }
}

/// A span as PromQL reads it; whole seconds as Go writes them.
fn written(span: SignedDuration) -> String {
    let (seconds, millis) = (span.as_secs(), span.subsec_millis());
    if seconds == 0 {
        return format!("{}ms", millis.max(1));
    }
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Reads an answer of Prometheus: values by queue. Several values of one queue, from coordinators that led one after the other, add
/// up.
pub fn read(body: &[u8]) -> Result<Vec<(String, f64)>, AnswerError> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| AnswerError(format!("it is no answer of Prometheus: {error}")))?;
    if answer.status != "success" {
        let why: String = answer.error.chars().take(256).collect();
        return Err(AnswerError(format!("Prometheus says {}: {why}", answer.status)));
    }
    let data = answer.data.ok_or_else(|| AnswerError("the answer has no data".to_owned()))?;
    if data.result_type != "vector" {
        let kind: String = data.result_type.chars().take(32).collect();
        return Err(AnswerError(format!("the answer is a {kind}, not a vector")));
    }
    let samples: Vec<Sample> = serde_json::from_value(data.result)
        .map_err(|error| AnswerError(format!("it is no vector: {error}")))?;
    if samples.len() > MOST {
        let count = samples.len();
        return Err(AnswerError(format!("it has {count} values, more than {MOST}")));
    }
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for Sample { mut metric, value } in samples {
        let value = value.1.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        if let Some(value) = value {
            *all.entry(metric.remove(QUEUE).unwrap_or_default()).or_default() += value;
        }
    }
    Ok(all.into_iter().collect())
}

/// What queues have used, as parts of the cluster. A kind that the cluster does not have counts as not used.
pub fn usage(answers: impl IntoIterator<Item = Answers>) -> Vec<(String, Usage)> {
    let mut all: BTreeMap<String, Usage> = BTreeMap::new();
    for (resource, queues, capacity) in answers {
        let Some(capacity) = capacity.filter(|capacity| *capacity > 0.0) else { continue };
        for (queue, amount) in queues {
            let usage = all.entry(queue).or_default();
            let part = match resource {
                Resource::Gpu => &mut usage.gpu,
                Resource::Cpu => &mut usage.cpu,
                Resource::Memory => &mut usage.memory,
            };
            *part = amount / capacity;
        }
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use muster_scheduler::config::shard;
    use serde_json::{Value, json};

    use super::*;

    fn asked(params: Value, now: &str) -> Vec<Queries> {
        let spec = json!({"spec": {"usageDBConfig": {"clientType": "prometheus",
            "connectionString": "http://p", "usageParams": params}}});
        let usage = shard(&spec.to_string(), &[]).unwrap().usage.unwrap();
        queries(&usage, now.parse().unwrap())
    }

    #[test]
    fn queries_sum_over_the_window_and_old_use_counts_less() {
        let now = "2026-03-04T05:06:07Z";
        let all = asked(json!({}), now);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].allocation, "sum_over_time((kai_queue_allocated_gpus)[168h0m0s:1m0s])");
        assert_eq!(
            all[2].capacity,
            "sum_over_time((sum(kube_node_status_capacity{resource=\"memory\"}))[168h0m0s:1m0s])"
        );
        let half = asked(json!({"halfLifePeriod": "10m", "windowSize": "90s"}), now);
        assert_eq!(
            half[1].allocation,
            "sum_over_time((((kai_queue_allocated_cpu_cores) * (0.5^((1772600767 - time()) / 600.000000))))[1m30s:1m0s])"
        );
    }

    #[test]
    fn windows_that_begin_anew_count_since_their_last_beginning() {
        let tumbling = |start: &str, now: &str| {
            let all = asked(
                json!({"windowType": "tumbling", "windowSize": "1h",
                "tumblingWindowStartTime": start}),
                now,
            );
            all.first().map(|one| one.allocation.split_once(")[").unwrap().1.to_owned())
        };
        let start = "2026-03-01T00:30:00Z";
        assert_eq!(tumbling(start, "2026-03-04T05:40:00Z").unwrap(), "10m0s:1m0s])");
        assert_eq!(tumbling(start, "2026-03-04T05:30:00Z").unwrap(), "1h0m0s:1m0s])");
        assert_eq!(tumbling(start, "2026-02-04T05:30:00Z"), None, "it has not begun");
        let cron =
            asked(json!({"windowType": "cron", "cronString": "@daily"}), "2026-03-04T05:06:07Z");
        assert!(cron[0].allocation.contains("[5h6m7s:"), "{}", cron[0].allocation);
    }

    #[test]
    fn answers_are_parts_of_the_cluster_and_odd_ones_are_refused() {
        let answer = |result: Value| json!({"status": "success", "data": {"resultType": "vector", "result": result}});
        let vector = answer(json!([
            {"metric": {"queue_name": "a"}, "value": [1, "30"]},
            {"metric": {"queue_name": "a", "pod": "other"}, "value": [1, "10"]},
            {"metric": {"queue_name": "b"}, "value": [1, "NaN"]},
        ]));
        let read = |body: &Value| read(body.to_string().as_bytes());
        let queues = read(&vector).unwrap();
        assert_eq!(queues, [("a".to_owned(), 40.0)]);
        let both = [(Resource::Gpu, queues.clone(), Some(80.0)), (Resource::Cpu, queues, None)];
        let expected = Usage { gpu: 0.5, ..Usage::default() };
        assert_eq!(usage(both), [("a".to_owned(), expected)]);
        for (odd, word) in [
            (json!({"status": "error", "error": "too many samples"}), "too many samples"),
            (
                json!({"status": "success", "data": {"resultType": "matrix", "result": []}}),
                "matrix",
            ),
            (answer(json!({"a": 1})), "no vector"),
            (json!([]), "no answer of Prometheus"),
        ] {
            let AnswerError(why) = read(&odd).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
