//! Resource names as dense indices, and vectors over them.
//!
//! Every vector of one cycle has the same length, so that an index is all that anybody needs. Any resource whose name
//! ends in `gpu` is the GPU dimension; everything else has a dimension of its own.

use std::collections::BTreeMap;

use super::Vector;

/// Millicores.
pub const CPU: usize = 0;
/// Bytes.
pub const MEMORY: usize = 1;
/// Whole graphics devices.
pub const GPU: usize = 2;
/// Pod slots.
pub const PODS: usize = 3;

/// The three amounts that queues share: CPU, memory, accelerators.
pub type Quantities = [f64; 3];

/// The dimensions of a cycle.
#[derive(Debug, Clone)]
pub struct Dimensions {
    names: Vec<String>,
    index: BTreeMap<String, usize>,
    /// Dimensions that count against a queue's accelerator quota, and how many devices one of them is.
    weights: Vec<(usize, f64)>,
}

// === impl Dimensions ===

impl Default for Dimensions {
    fn default() -> Self {
        let mut it = Self { names: Vec::new(), index: BTreeMap::new(), weights: Vec::new() };
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
        if at > PODS {
            let weight = slice_weight(name).or_else(|| npu_weight(name));
            if let Some(weight) = weight {
                self.weights.push((at, weight));
            }
        }
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

    /// Accelerators as a queue's quota counts them: whole devices, slices by their share, NPUs.
    pub fn accelerators(&self, vector: &[f64]) -> f64 {
        let mut sum = at(vector, GPU);
        for &(dimension, weight) in &self.weights {
            sum += weight * at(vector, dimension);
        }
        sum
    }

    /// What queues share of a vector.
    pub fn quantities(&self, vector: &[f64]) -> Quantities {
        [at(vector, CPU), at(vector, MEMORY), self.accelerators(vector)]
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
pub fn plus(a: Quantities, b: Quantities) -> Quantities {
    let ([x, y, z], [u, v, w]) = (a, b);
    [x + u, y + v, z + w]
}

/// `a - b`, of quantities.
pub fn minus(a: Quantities, b: Quantities) -> Quantities {
    let ([x, y, z], [u, v, w]) = (a, b);
    [x - u, y - v, z - w]
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
}
