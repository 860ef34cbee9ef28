//! Numbers that are read when somebody asks: problems by area, and how often each was raised.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::problem::{Area, Problems};

/// Shows the problems as metrics.
#[derive(Debug)]
pub struct ProblemCollector(pub Problems);

// === impl ProblemCollector ===

impl Collector for ProblemCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Problems that the agent has right now";
        let mut open = encoder.encode_descriptor(
            "problems",
            help,
            None,
            ConstGauge::new(0i64).metric_type(),
        )?;
        for area in Area::ALL {
            let count = i64::try_from(self.0.open(area)).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(open.encode_family(&[("area", area.name())])?)?;
        }
        let help = "Problems that the agent has had";
        let mut raised = encoder.encode_descriptor(
            "problems_raised",
            help,
            None,
            ConstCounter::new(0u64).metric_type(),
        )?;
        for (area, reason, count) in self.0.raised() {
            let labels = [("area", area.name()), ("reason", reason)];
            ConstCounter::new(count).encode(raised.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
