//! What a pod asks of graphics devices: whole ones, a part of one or several, memory, slices, claimed ones.

/// How a pod asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuKind {
    /// Whole devices, or none.
    Whole,
    /// A part of each.
    Fraction,
    /// Memory of each.
    Memory,
    /// Slices that hardware makes.
    Slice,
}

/// What a pod asks of graphics devices.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuRequest {
    /// How it asks.
    pub kind: GpuKind,
    /// How many devices.
    pub count: i64,
    /// How much of each: 1 is all.
    pub portion: f64,
    /// Mebibytes of each; 0 if it does not ask so.
    pub memory: i64,
    /// Devices that its claims ask for.
    pub claimed: i64,
    /// Slices: dimension and number.
    pub slices: Vec<(usize, i64)>,
    /// Slices as queues count them.
    pub slice_quota: f64,
    /// Gigabytes of slices.
    pub slice_memory: i64,
    /// Whether it asks for slices by annotation, which no node takes any more.
    pub by_annotation: bool,
}

// === impl GpuRequest ===

impl Default for GpuRequest {
    fn default() -> Self {
        Self {
            kind: GpuKind::Whole,
            count: 0,
            portion: 0.0,
            memory: 0,
            claimed: 0,
            slices: Vec::new(),
            slice_quota: 0.0,
            slice_memory: 0,
            by_annotation: false,
        }
    }
}

impl GpuRequest {
    /// A request for whole devices.
    pub fn whole(count: i64) -> Self {
        Self { count, portion: if count > 0 { 1.0 } else { 0.0 }, ..Self::default() }
    }

    /// Devices, parts of them added up.
    pub fn gpus(&self) -> f64 {
        portions(self.portion, self.count)
    }

    /// Devices as queues count them.
    pub fn quota(&self) -> f64 {
        self.slice_quota + self.claimed as f64 + self.gpus()
    }

    /// Whether it shares devices with others.
    pub fn is_shared(&self) -> bool {
        matches!(self.kind, GpuKind::Fraction | GpuKind::Memory)
    }

    /// Whether it asks for nothing of the kind.
    pub fn is_none(&self) -> bool {
        self.gpus() == 0.0
            && self.claimed == 0
            && self.memory == 0
            && self.slices.is_empty()
            && !self.by_annotation
    }

    /// The part of a device that its memory is, where a device has `of` mebibytes.
    pub fn memory_fraction(&self, of: i64) -> f64 {
        if of <= 0 || self.memory <= 0 {
            0.0
        } else {
            self.count as f64 * (self.memory as f64 / of as f64)
        }
    }
}

/// `count` devices of a portion, to the hundredth.
fn portions(portion: f64, count: i64) -> f64 {
    (portion * 100.0).round() * count as f64 / 100.0
}

/// Upwards to the hundredth.
pub fn ceil2(x: f64) -> f64 {
    (x * 100.0).ceil() / 100.0
}
