//! Nodes, not merged yet.
use crate::clock::Clock;
/// Logs.
#[derive(Debug, Clone)]
pub struct Logs;
impl Logs {
    /// Lines.
    pub fn get(&self, _: &str, _: &str, _: &str) -> Vec<String> {
        Vec::new()
    }
}
/// Node.
#[derive(Debug)]
pub struct NodeSpec;
/// Options.
#[derive(Debug, Default)]
pub struct KubeletOptions;
/// Kubelets.
#[derive(Debug)]
pub struct Kubelets;
impl Kubelets {
    /// Starts.
    pub async fn start(
        _: kube::Client,
        _: Clock,
        _: Vec<NodeSpec>,
        _: KubeletOptions,
    ) -> anyhow::Result<Self> {
        Ok(Self)
    }
    /// Logs.
    pub fn logs(&self) -> Logs {
        Logs
    }
    /// Stops.
    pub async fn stop(self) {}
}
