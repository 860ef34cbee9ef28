//! Asking the vendor's tools, without letting one that misbehaves cost more than it must.
//!
//! One error per tool and topic is reported, with the devices that had it. A topic is first asked of two devices; when
//! one has answered the others follow at once. After a time-out nobody else is asked the same in this look, so
//! a tool that hangs costs one time limit and not one per device.

use std::collections::BTreeMap;
use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use muster_proto::device::Chip;

use super::merge::list;
use super::parse::{hccn, info, mapping, spod, topo};
use crate::problem::Finding;
use crate::tool::{Tool, ToolError, Tools};

/// How many devices are asked before one has answered, and afterwards. [`Tools`] limits what runs.
const TRIAL: usize = 2;
const WIDE: usize = 16;

/// The tools of a node.
pub struct Ask<'a> {
    tools: &'a Tools,
    npu_smi: Tool,
    hccn_tool: Tool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The tool gave none.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// It gave something else.
    #[error("it printed something that is no answer; is it made for this driver?")]
    Garbled,
}

/// Everything that went wrong, each tool and topic once.
#[derive(Debug, Default)]
pub struct AskErrors {
    found: BTreeMap<String, (&'static str, String, Vec<u32>)>,
}

/// What devices answered, by physical id or by NPU and chip.
pub type Answers<K, T> = Vec<(K, Result<T, AskError>)>;

// === impl AskError ===

impl AskError {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Tool(error) => error.reason(),
            Self::Garbled => "tool-garbled",
        }
    }

    /// Whether the tool ran and refused: it does not know the topic, or the device has no such thing.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Tool(ToolError::Failed { .. }))
    }

    fn is_hang(&self) -> bool {
        matches!(self, Self::Tool(ToolError::TimedOut { .. }))
    }
}

// === impl AskErrors ===

impl AskErrors {
    /// A topic had this error, with this device. A tool that cannot be run at all has no topics.
    pub fn add(&mut self, tool: &str, topic: &str, error: &AskError, device: Option<u32>) {
        let whole = matches!(
            error,
            AskError::Tool(
                ToolError::Absent(_) | ToolError::Untrusted { .. } | ToolError::Io { .. }
            )
        );
        let subject = if whole { tool.to_owned() } else { format!("{tool} {topic}") };
        let device = device.filter(|_| !whole);
        let entry = self.found.entry(subject);
        let entry = entry.or_insert_with(|| (error.reason(), error.to_string(), Vec::new()));
        entry.2.extend(device);
    }

    /// A library failed.
    #[cfg(feature = "dcmi")]
    pub fn add_library(
        &mut self,
        subject: &str,
        reason: &'static str,
        message: &dyn std::fmt::Display,
    ) {
        self.found.insert(subject.to_owned(), (reason, message.to_string(), Vec::new()));
    }

    /// One finding for each tool and topic.
    pub fn findings(self) -> impl Iterator<Item = Finding> {
        self.found.into_iter().map(|(subject, (reason, said, mut devices))| {
            devices.sort_unstable();
            devices.dedup();
            let message = match devices.as_slice() {
                [] => said,
                devices => format!("{}: {said}", list(devices)),
            };
            Finding::new(reason, subject, message)
        })
    }
}

// === impl Ask ===

impl<'a> Ask<'a> {
    /// The tools of the driver in this directory.
    pub fn new(tools: &'a Tools, driver: &str) -> Self {
        let places = ["/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi"];
        let npu_smi = tools.find(&places).unwrap_or_else(|| places[0].to_owned());
        let tool = |path: String| {
            let folders = ["driver", "common"].map(|folder| format!("{driver}/lib64/{folder}"));
            Tool::at(path).libraries(folders)
        };
        let hccn_tool = tool(format!("{driver}/tools/hccn_tool"));
        Self { tools, npu_smi: tool(npu_smi), hccn_tool }
    }

    /// The chips and their health.
    pub async fn info(&self) -> Result<Vec<info::Row>, AskError> {
        self.one(&self.npu_smi, &["info"], info::info).await
    }

    /// The chips' numbers.
    pub async fn numbers(&self) -> Result<Vec<mapping::Numbers>, AskError> {
        self.one(&self.npu_smi, &["info", "-m"], mapping::mapping).await
    }

    /// How devices are joined. A chip without links of its own need not have an answer.
    pub async fn topo(&self, chip: Chip) -> Result<topo::Topo, AskError> {
        match self.one(&self.npu_smi, &["info", "-t", "topo"], topo::topo).await {
            Err(error) if error.is_refusal() && !chip.has_port() => Ok(topo::Topo::default()),
            answer => answer,
        }
    }

    /// Places in the super-pod, by NPU and chip. A server that is in none may refuse, and so may a tool that is busy.
    pub async fn spod(&self, cards: &[(u32, u32)]) -> Answers<(u32, u32), spod::Spod> {
        each(cards, |(npu, chip)| async move {
            let (npu, chip) = (npu.to_string(), chip.to_string());
            let args = ["info", "-t", "spod-info", "-i", &npu, "-c", &chip];
            self.one(&self.npu_smi, &args, spod::spod).await
        })
        .await
    }

    /// What ports say of a topic.
    pub async fn ports<T>(
        &self,
        topic: &str,
        ids: &[u32],
        parse: impl Fn(&str) -> Option<T> + Copy,
    ) -> Answers<u32, T> {
        each(ids, |id| async move {
            let id = id.to_string();
            self.one(&self.hccn_tool, &["-i", &id, topic, "-g"], parse).await
        })
        .await
    }

    /// What ports are plugged into. Where the switch does not tell, tools may refuse or print anything.
    pub async fn lldp(&self, ids: &[u32]) -> Answers<u32, Option<muster_proto::device::Neighbour>> {
        let answers = self.ports("-lldp", ids, |text| Some(hccn::lldp(text))).await;
        let settled = answers.into_iter().map(|(id, answer)| match answer {
            Err(error) if error.is_refusal() => (id, Ok(None)),
            answer => (id, answer),
        });
        settled.collect()
    }

    async fn one<T>(
        &self,
        tool: &Tool,
        args: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, AskError> {
        let text = self.tools.call(tool, args).await?;
        parse(&text).ok_or(AskError::Garbled)
    }
}

/// Asks each, as the module says.
async fn each<K: Copy, T, F>(keys: &[K], ask: impl Fn(K) -> F) -> Answers<K, T>
where
    F: Future<Output = Result<T, AskError>>,
{
    let ask = &ask;
    let mut waiting = keys.iter().copied();
    let mut running = FuturesUnordered::new();
    let mut answers = Vec::with_capacity(keys.len());
    let (mut width, mut stop) = (TRIAL, false);
    loop {
        while !stop && running.len() < width {
            let Some(key) = waiting.next() else { break };
            running.push(async move { (key, ask(key).await) });
        }
        let Some((key, answer)) = running.next().await else { break };
        match &answer {
            Err(error) if error.is_hang() => stop = true,
            _ => width = WIDE,
        }
        answers.push((key, answer));
    }
    answers
}
