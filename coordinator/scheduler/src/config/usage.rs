//! Where past use of queues is asked for, and over which time: KAI's `usageDBConfig`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::cron::Cron;
use muster_kube::duration;

/// Where past use is asked for, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageDb {
    /// Where Prometheus is.
    pub at: Connection,
    /// The Secret of the coordinator's namespace that has its credentials and its authority.
    pub auth_secret: Option<String>,
    /// After this time use counts half; none: all of the window counts the same.
    pub half_life: Option<SignedDuration>,
    /// Over which time.
    pub window: Window,
    /// How often it is asked.
    pub fetch_interval: SignedDuration,
    /// After this time without an answer no past use counts.
    pub staleness: SignedDuration,
    /// How long the first cycle waits for the first answer.
    pub wait: SignedDuration,
    /// How long an answer may take.
    pub timeout: SignedDuration,
    /// The steps of the window.
    pub resolution: SignedDuration,
    /// Devices.
    pub gpu: Metrics,
    /// Processors.
    pub cpu: Metrics,
    /// Memory.
    pub memory: Metrics,
}

/// Where Prometheus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Here.
    Url(String),
    /// Where this variable of the environment says.
    Variable(String),
    /// Where the rest of the configuration says.
    Elsewhere,
}

/// Over which time use counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// The time before now.
    Sliding(SignedDuration),
    /// Windows of one size, one after the other, since this instant.
    Tumbling(Timestamp, SignedDuration),
    /// Windows that begin at these instants.
    Cron(Cron),
}

/// What is asked for, in PromQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// What queues have, by the label `queue_name`.
    pub allocation: String,
    /// What the cluster has.
    pub capacity: String,
}

/// As it is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Written {
    client_type: String,
    connection_string: String,
    connection_string_env_var: String,
    usage_params: Option<Params>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    half_life_period: Option<String>,
    window_size: Option<String>,
    window_type: Option<String>,
    tumbling_window_start_time: Option<String>,
    cron_string: String,
    fetch_interval: Option<String>,
    staleness_period: Option<String>,
    wait_timeout: Option<String>,
    extra_params: Option<BTreeMap<String, String>>,
}

/// It is asked no more often.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// Devices of all vendors that are scheduled here; KAI itself counts those of NVIDIA alone.
const DEVICES: &str = "nvidia_com_gpu|amd_com_gpu|huawei_com_Ascend.*|huawei_com_npu";

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

// === impl Written ===

impl Written {
    /// With KAI's defaults. An error has the field and what is wrong with it.
    pub(super) fn resolve(self) -> Result<UsageDb, (String, String)> {
        let wrong = |field: &str, problem: &str| Err((field.to_owned(), problem.to_owned()));
        match self.client_type.as_str() {
            "prometheus" => {}
            "" => return wrong("clientType", "it is missing: set prometheus"),
            other => {
                let problem = format!("`{other}` is no client here: set prometheus");
                return Err(("clientType".to_owned(), problem));
            }
        }
        let at = match (self.connection_string, self.connection_string_env_var) {
            (url, name) if !url.is_empty() && !name.is_empty() => {
                let problem = "connectionStringEnvVar is set as well: leave one of the two";
                return wrong("connectionString", problem);
            }
            (url, _) if !url.is_empty() => Connection::Url(url),
            (_, name) if !name.is_empty() => Connection::Variable(name),
            _ => Connection::Elsewhere,
        };
        let params = self.usage_params.unwrap_or_default();
        let size =
            span("windowSize", params.window_size)?.unwrap_or(SignedDuration::from_hours(24 * 7));
        if size <= SignedDuration::ZERO {
            return wrong("usageParams.windowSize", "it must be above 0");
        }
        let window = match params.window_type.as_deref().unwrap_or("sliding") {
            "sliding" => Window::Sliding(size),
            "tumbling" => match params.tumbling_window_start_time {
                None => {
                    let problem = "a tumbling window needs it: set when the first one began";
                    return wrong("usageParams.tumblingWindowStartTime", problem);
                }
                Some(text) => {
                    let start = text.parse().map_err(|_| {
                        let problem =
                            format!("`{text}` is no instant: write it like 2026-01-31T00:00:00Z");
                        ("usageParams.tumblingWindowStartTime".to_owned(), problem)
                    })?;
                    Window::Tumbling(start, size)
                }
            },
            "cron" => Window::Cron(
                Cron::parse(&params.cron_string)
                    .map_err(|problem| ("usageParams.cronString".to_owned(), problem))?,
            ),
            other => {
                let problem = format!("`{other}` is no window: use sliding, tumbling or cron");
                return Err(("usageParams.windowType".to_owned(), problem));
            }
        };
        let minutes = SignedDuration::from_mins;
        let fetch_interval = span("fetchInterval", params.fetch_interval)?
            .unwrap_or(minutes(1))
            .max(SHORTEST_INTERVAL);
        let staleness = span("stalenessPeriod", params.staleness_period)?.unwrap_or(minutes(5));
        let extra = params.extra_params.unwrap_or_default();
        let extra_span = |name: &str, otherwise: SignedDuration| {
            let written = extra.get(name).and_then(|text| duration::parse_long(text).ok());
            written.filter(|span| *span > SignedDuration::ZERO).unwrap_or(otherwise)
        };
        let metrics = |kind: &str, allocation: &str, resource: String| Metrics {
            allocation: extra
                .get(&format!("{kind}AllocationMetric"))
                .cloned()
                .unwrap_or_else(|| format!("kai_queue_allocated_{allocation}")),
            capacity: extra
                .get(&format!("{kind}CapacityMetric"))
                .cloned()
                .unwrap_or_else(|| format!("sum(kube_node_status_capacity{{{resource}}})")),
        };
        let auth_secret = extra.get("authSecretName").filter(|name| !name.is_empty()).cloned();
        if let Some(name) = auth_secret.as_deref().filter(|name| !is_name(name)) {
            let problem = format!("`{name}` is no name of a Secret: write one, without namespace");
            return Err(("usageParams.extraParams.authSecretName".to_owned(), problem));
        }
        Ok(UsageDb {
            at,
            auth_secret,
            half_life: span("halfLifePeriod", params.half_life_period)?
                .filter(|half| *half > SignedDuration::ZERO),
            window,
            fetch_interval,
            staleness: staleness.max(fetch_interval),
            wait: span("waitTimeout", params.wait_timeout)?.unwrap_or(minutes(1)),
            timeout: extra_span("usageQueryTimeout", SignedDuration::from_secs(10)),
            resolution: extra_span("queryResolution", minutes(1)),
            gpu: metrics("gpu", "gpus", format!("resource=~\"{DEVICES}\"")),
            cpu: metrics("cpu", "cpu_cores", "resource=\"cpu\"".to_owned()),
            memory: metrics("memory", "memory_bytes", "resource=\"memory\"".to_owned()),
        })
    }
}

/// Whether a text may be the name of a Secret.
pub fn is_name(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(plain)
}

fn span(field: &str, text: Option<String>) -> Result<Option<SignedDuration>, (String, String)> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let read = duration::parse_long(&text);
    read.map(Some).map_err(|error| (format!("usageParams.{field}"), error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Config, ConfigError, parse, shard};

    fn read(usage: &Value) -> Result<Option<UsageDb>, ConfigError> {
        let of_shard = shard(&json!({"spec": {"usageDBConfig": usage}}).to_string(), &[]);
        let of_file = parse(&json!({ "usageDBConfig": usage }).to_string(), &[]);
        let of_file = of_file?;
        assert_eq!(of_file.notes.is_empty(), of_shard.is_ok(), "a file is told, a shard refused");
        assert_eq!(of_file.usage, of_shard.clone().map_or(None, |config| config.usage));
        of_shard.map(|config| config.usage)
    }

    #[test]
    fn what_is_not_said_is_as_with_kai() {
        assert_eq!(Config::default().usage, None);
        let usage = read(&json!({"clientType": "prometheus"})).unwrap().unwrap();
        assert_eq!(usage.at, Connection::Elsewhere);
        assert_eq!(usage.window, Window::Sliding(SignedDuration::from_hours(168)));
        assert_eq!((usage.half_life, usage.staleness.as_secs()), (None, 300));
        assert_eq!((usage.fetch_interval.as_secs(), usage.wait.as_secs()), (60, 60));
        assert_eq!(usage.cpu.allocation, "kai_queue_allocated_cpu_cores");
        assert_eq!(usage.memory.capacity, "sum(kube_node_status_capacity{resource=\"memory\"})");
        assert!(usage.gpu.capacity.contains("nvidia_com_gpu"), "{}", usage.gpu.capacity);
    }

    #[test]
    fn what_is_said_is_read_and_what_cannot_be_is_refused_by_its_field() {
        let usage = read(&json!({"clientType": "prometheus", "connectionString": "http://p:9090",
            "usageParams": {"halfLifePeriod": "12h", "windowType": "cron", "cronString": "@daily",
                "fetchInterval": "10m", "stalenessPeriod": "1m",
                "extraParams": {"gpuAllocationMetric": "used", "queryResolution": "30s",
                    "authSecretName": "prometheus"}}}));
        let usage = usage.unwrap().unwrap();
        assert_eq!(usage.at, Connection::Url("http://p:9090".to_owned()));
        assert_eq!(usage.half_life, Some(SignedDuration::from_hours(12)));
        assert_eq!(usage.window, Window::Cron(Cron::parse("0 0 * * *").unwrap()));
        assert_eq!(usage.staleness.as_mins(), 10, "no shorter than the interval");
        assert_eq!((usage.gpu.allocation.as_str(), usage.resolution.as_secs()), ("used", 30));
        assert_eq!(usage.auth_secret.as_deref(), Some("prometheus"));
        let with = |params: Value| json!({"clientType": "prometheus", "usageParams": params});
        for (odd, field) in [
            (json!({}), "clientType"),
            (json!({"clientType": "fake"}), "clientType"),
            (
                json!({"clientType": "prometheus", "connectionString": "a", "connectionStringEnvVar": "B"}),
                "connectionString",
            ),
            (with(json!({"windowType": "round"})), "usageParams.windowType"),
            (with(json!({"windowType": "tumbling"})), "usageParams.tumblingWindowStartTime"),
            (with(json!({"windowType": "cron", "cronString": "x"})), "usageParams.cronString"),
            (with(json!({"windowSize": "soon"})), "usageParams.windowSize"),
            (with(json!({"windowSize": "0s"})), "usageParams.windowSize"),
            (
                with(json!({"extraParams": {"authSecretName": "other/secret"}})),
                "usageParams.extraParams.authSecretName",
            ),
        ] {
            let error = read(&odd).unwrap_err().to_string();
            assert!(error.contains(&format!("spec.usageDBConfig.{field}: ")), "{error}");
        }
    }
}
