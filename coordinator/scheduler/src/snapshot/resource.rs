//! Resource names as dense indices, and vectors over them.
//!
//! Every vector of one cycle has the same length, so that an index is all that anybody needs. Any resource whose name
//! ends in `gpu` is the GPU dimension; everything else has a dimension of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::Vector;

/// Index of the CPUs, counted in thousandths.
pub const CPU: usize = 0;
/// Index of the memory, counted in bytes.
pub const MEMORY: usize = 1;
/// Whole graphics devices.
pub const GPU: usize = 2;
/// Index of the pods that a node takes.
pub const PODS: usize = 3;
/// What the kind of graphics devices is called.
const GPU_KIND: &str = "nvidia.com/gpu";

/// How many kinds of accelerators queues share apart from one another. Those beyond are shared as one.
pub const KINDS: usize = 4;

/// Where the first kind of accelerators is among what queues share.
pub const FIRST_KIND: usize = 2;

/// What queues share: CPU, memory, and the accelerators of each kind ([`Dimensions::kinds`]).
pub type Quantities = [f64; FIRST_KIND + KINDS];

/// Nothing of anything that queues share.
pub const NOTHING: Quantities = [0.0; FIRST_KIND + KINDS];

/// What the kind is called that devices are counted as of which there are too many kinds.
const OTHERS: &str = "other devices";

/// The dimensions of a cycle.
#[derive(Debug, Clone)]
pub struct Dimensions {
    names: Vec<String>,
    index: BTreeMap<String, usize>,
    /// Dimensions that count against a queue's accelerator quota.
    weights: Vec<Weight>,
    /// The kinds of accelerators that queues share, by the name of a whole device.
    kinds: Vec<String>,
}

/// How a dimension counts against a queue's quota of accelerators.
#[derive(Debug, Clone, Copy)]
struct Weight {
    dimension: usize,
    /// How many devices one of it is.
    devices: f64,
    /// Where its kind is among what queues share; none if no node has the kind and there are others.
    at: Option<usize>,
}

// === impl Dimensions ===

impl Default for Dimensions {
    fn default() -> Self {
        let mut it = Self {
            names: Vec::new(),
            index: BTreeMap::new(),
            weights: Vec::new(),
            kinds: vec![GPU_KIND.to_owned()],
        };
        for name in ["cpu", "memory", "nvidia.com/gpu", "pods"] {
            it.push(name);
        }
        it
    }
}

impl Dimensions {
    fn push(&mut self, name: &str) -> usize {
        let at = self.names.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), at);
        let devices = match at {
            GPU => Some(1.0),
            CPU | MEMORY | PODS => None,
            _ => slice_weight(name).or_else(|| npu_weight(name)),
        };
        let weight = |devices| Weight { dimension: at, devices, at: Some(FIRST_KIND) };
        self.weights.extend(devices.map(weight));
        at
    }

    /// The index of a name, which it gets now if it has none.
    pub fn intern(&mut self, name: &str) -> usize {
        if name.ends_with("gpu") {
            return GPU;
        }
        match self.index.get(name) {
            Some(&at) => at,
            None => self.push(name),
        }
    }

    /// The index of a name that somebody has used.
    pub fn find(&self, name: &str) -> Option<usize> {
        if name.ends_with("gpu") { Some(GPU) } else { self.index.get(name).copied() }
    }

    /// The name of a dimension.
    pub fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("", String::as_str)
    }

    /// How many dimensions there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: four dimensions always exist.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// A vector of nothing.
    pub fn zero(&self) -> Vector {
        Vector::zero(self.names.len())
    }

    /// Accelerators of all kinds: whole devices, slices by their share, NPUs.
    pub fn accelerators(&self, vector: &[f64]) -> f64 {
        self.weights.iter().map(|it| it.devices * at(vector, it.dimension)).sum()
    }

    /// What queues share of a vector.
    pub fn quantities(&self, vector: &[f64]) -> Quantities {
        let mut out = NOTHING;
        let [cpu, memory, ..] = &mut out;
        (*cpu, *memory) = (at(vector, CPU), at(vector, MEMORY));
        for weight in &self.weights {
            if let Some(sum) = weight.at.and_then(|at| out.get_mut(at)) {
                *sum += weight.devices * at(vector, weight.dimension);
            }
        }
        out
    }

    /// Says which kinds of accelerators there are: those that nodes have something of. With one kind, or none, all
    /// that is asked for counts as that kind.
    pub fn find_kinds<'v>(&mut self, nodes: impl Iterator<Item = &'v [f64]> + Clone) {
        let is_there =
            |weight: &&Weight| nodes.clone().any(|node| at(node, weight.dimension) > 0.0);
        let name = |weight: &Weight| kind_of(self.name(weight.dimension)).to_owned();
        let there: BTreeSet<String> = self.weights.iter().filter(is_there).map(name).collect();
        if there.is_empty() {
            return;
        }
        // Graphics devices are first, as they are where nothing else is.
        let (mut kinds, others): (Vec<String>, Vec<String>) =
            there.into_iter().partition(|kind| kind == GPU_KIND);
        kinds.extend(others);
        let at = |kind: &str| kinds.iter().position(|other| other == kind);
        let places: Vec<Option<usize>> = self
            .weights
            .iter()
            .map(|weight| match kinds.len() {
                1 => Some(FIRST_KIND),
                _ => Some(FIRST_KIND + at(kind_of(self.name(weight.dimension)))?.min(KINDS - 1)),
            })
            .collect();
        for (weight, place) in self.weights.iter_mut().zip(places) {
            weight.at = place;
        }
        if kinds.len() > KINDS {
            kinds.truncate(KINDS);
            if let Some(last) = kinds.last_mut() {
                OTHERS.clone_into(last);
            }
        }
        self.kinds = kinds;
    }

    /// The kinds of accelerators that queues share: there is always one.
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// How many amounts queues share.
    pub fn shared(&self) -> usize {
        FIRST_KIND + self.kinds.len()
    }

    /// Where graphics devices are among what queues share.
    pub fn gpu_kind(&self) -> Option<usize> {
        self.weights.iter().find(|weight| weight.dimension == GPU).and_then(|weight| weight.at)
    }

    /// Quantities with another amount of graphics devices.
    pub fn with_gpus(&self, mut of: Quantities, gpus: impl FnOnce(f64) -> f64) -> Quantities {
        if let Some(amount) = self.gpu_kind().and_then(|at| of.get_mut(at)) {
            *amount = gpus(*amount);
        }
        of
    }

    /// Which of the amounts that queues share decide about a request: processors and memory always, and the kinds
    /// that it asks for. Where there is one kind it decides always.
    pub fn deciding(&self, request: &Quantities) -> [bool; FIRST_KIND + KINDS] {
        let mut out = [true; FIRST_KIND + KINDS];
        if self.kinds.len() > 1 {
            let kinds = out.iter_mut().zip(request).skip(FIRST_KIND);
            kinds.for_each(|(decides, amount)| *decides = *amount > 0.0);
        }
        out
    }

    /// Whether a dimension is a slice of a device (`nvidia.com/mig-…`).
    pub fn is_slice(&self, at: usize) -> bool {
        self.name(at).starts_with("nvidia.com/mig-")
    }

    /// Whether a dimension is an Ascend device or a part of one.
    pub fn is_npu(&self, at: usize) -> bool {
        npu_weight(self.name(at)).is_some()
    }
}

/// The amount at an index; a vector that is too short has none.
pub fn at(vector: &[f64], index: usize) -> f64 {
    vector.get(index).copied().unwrap_or(0.0)
}

/// Whether each amount of `a` is at most that of `b`.
pub fn less_equal(a: &[f64], b: &[f64]) -> bool {
    a.iter().enumerate().all(|(i, x)| *x <= at(b, i))
}

/// `a += b`.
pub fn add(a: &mut [f64], b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += *y;
    }
}

/// `a -= b`.
pub fn sub(a: &mut [f64], b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x -= *y;
    }
}

/// `a + b`, of quantities.
pub fn plus(mut a: Quantities, b: Quantities) -> Quantities {
    add(&mut a, &b);
    a
}

/// `a - b`, of quantities.
pub fn minus(mut a: Quantities, b: Quantities) -> Quantities {
    sub(&mut a, &b);
    a
}

/// Accelerators of all kinds, of quantities.
pub fn devices(of: &Quantities) -> f64 {
    of.iter().skip(FIRST_KIND).sum()
}

/// Whether a name is one of a kind of accelerators that queues can share: of whole devices, with its domain.
pub fn is_kind(name: &str) -> bool {
    let is_gpu = name.contains('/') && name.ends_with("gpu");
    is_gpu || (npu_weight(name).is_some() && kind_of(name) == name)
}

/// The kind of accelerators that a resource is of, or a part of: what a whole device of it is called.
pub fn kind_of(name: &str) -> &str {
    if name.ends_with("gpu") || name.starts_with("nvidia.com/mig-") {
        return GPU_KIND;
    }
    match name.strip_prefix("huawei.com/Ascend").and_then(|kind| kind.find('-')) {
        Some(dash) => name.get(.."huawei.com/Ascend".len() + dash).unwrap_or(name),
        None => name,
    }
}

/// Compute units and gigabytes of a slice such as `nvidia.com/mig-3g.20gb`; other spellings count as none.
pub fn slice_profile(name: &str) -> Option<(u32, u32)> {
    let profile = name.strip_prefix("nvidia.com/mig-")?;
    let (units, memory) = profile.split_once("g.")?;
    let memory = memory.strip_suffix("gb")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(units) || !digits(memory) {
        return None;
    }
    Some((units.parse().ok()?, memory.parse().ok()?))
}

fn slice_weight(name: &str) -> Option<f64> {
    slice_profile(name).map(|(units, _)| f64::from(units))
}

/// Devices that one unit of an Ascend resource is: 1 for a whole one, a share by cores for a vNPU.
fn npu_weight(name: &str) -> Option<f64> {
    if name == "ascend.com/npu" || name == "huawei.com/npu" {
        return Some(1.0);
    }
    let kind = name.strip_prefix("huawei.com/Ascend")?;
    let Some((chip, template)) = kind.split_once('-') else {
        return Some(1.0);
    };
    let cores: String = template.chars().take_while(char::is_ascii_digit).collect();
    let rest = template.get(cores.len()..).unwrap_or("");
    if !rest.starts_with('c') {
        return Some(1.0);
    }
    let whole = if chip.starts_with("310") { 8.0 } else { 32.0 };
    cores.parse::<f64>().ok().map(|cores| (cores / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_ends_in_gpu_is_the_gpu_dimension() {
        let mut dimensions = Dimensions::default();
        assert_eq!(dimensions.intern("nvidia.com/gpu"), GPU);
        assert_eq!(dimensions.intern("amd.com/gpu"), GPU);
        assert_eq!(dimensions.intern("example.com/fpga"), 4);
        assert_eq!(dimensions.intern("example.com/fpga"), 4);
    }

    #[test]
    fn slices_and_npus_count_against_the_accelerator_quota() {
        let mut dimensions = Dimensions::default();
        let slice = dimensions.intern("nvidia.com/mig-3g.20gb");
        let odd = dimensions.intern("nvidia.com/mig-1g.5gb.me");
        let npu = dimensions.intern("huawei.com/Ascend910");
        let part = dimensions.intern("huawei.com/Ascend910-16c");
        let mut vector = dimensions.zero();
        for (at, amount) in [(GPU, 1.0), (slice, 2.0), (odd, 5.0), (npu, 1.0), (part, 1.0)] {
            if let Some(x) = vector.get_mut(at) {
                *x = amount;
            }
        }
        assert!((dimensions.accelerators(&vector) - 8.5).abs() < 1e-9);
    }

    #[test]
    fn kinds_of_accelerators_are_counted_apart_where_nodes_have_several() {
        let mut dimensions = Dimensions::default();
        let npu = dimensions.intern("huawei.com/Ascend910");
        let part = dimensions.intern("huawei.com/Ascend910-16c");
        let absent = dimensions.intern("huawei.com/Ascend310P");
        let mut vector = dimensions.zero();
        for (at, amount) in [(GPU, 3.0), (npu, 2.0), (part, 1.0), (absent, 7.0)] {
            vector[at] = amount;
        }
        let only = |index: usize| {
            let mut node = dimensions.zero();
            node[index] = 8.0;
            node
        };
        let (gpus, npus) = (only(GPU), only(npu));
        // One kind: all counts as it was always counted.
        let mut one = dimensions.clone();
        one.find_kinds([&npus[..]].into_iter());
        assert_eq!(one.kinds(), ["huawei.com/Ascend910"]);
        assert_eq!(one.quantities(&vector), [0.0, 0.0, 12.5, 0.0, 0.0, 0.0]);
        let mut two = dimensions.clone();
        two.find_kinds([&npus[..], &gpus[..]].into_iter());
        assert_eq!(two.kinds(), ["nvidia.com/gpu", "huawei.com/Ascend910"]);
        assert_eq!(two.quantities(&vector), [0.0, 0.0, 3.0, 2.5, 0.0, 0.0]);
    }

    #[test]
    fn kinds_beyond_those_that_are_shared_apart_are_shared_as_one() {
        let mut dimensions = Dimensions::default();
        let names = ["A", "B", "C", "D", "E"].map(|kind| format!("huawei.com/Ascend{kind}"));
        let mut node = dimensions.zero();
        for name in &names {
            dimensions.intern(name);
            node = dimensions.zero();
            node.iter_mut().skip(PODS + 1).for_each(|amount| *amount = 1.0);
        }
        dimensions.find_kinds([&node[..]].into_iter());
        assert_eq!(dimensions.kinds().len(), KINDS);
        assert_eq!(dimensions.quantities(&node), [0.0, 0.0, 1.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn a_part_of_a_device_is_of_the_kind_of_the_whole_and_names_none() {
        assert_eq!(kind_of("huawei.com/Ascend910-16c"), "huawei.com/Ascend910");
        assert_eq!(kind_of("nvidia.com/mig-1g.5gb"), "nvidia.com/gpu");
        for kind in ["huawei.com/Ascend910", "ascend.com/npu", "nvidia.com/gpu", "amd.com/gpu"] {
            assert!(is_kind(kind), "{kind}");
        }
        for none in [
            "gpu",
            "huawei.com/Ascend910-16c",
            "nvidia.com/mig-1g.5gb",
            "cpu",
            "huawei.com/Ascned910",
        ] {
            assert!(!is_kind(none), "{none}");
        }
    }
}
