//! `npu-smi info -t spod-info`: the place of a die in its super-pod, as lines of `key : value`.

/// The number that stands for "none".
const NONE: u32 = u32::MAX;

/// A die's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spod {
    /// What names the die in the super-pod.
    pub sdid: Option<u32>,
    /// How large the super-pod is.
    pub size: Option<u32>,
    /// Number of the super-pod.
    pub id: Option<u32>,
    /// The node's number in it.
    pub server: Option<u32>,
}

// === impl Spod ===

impl Spod {
    /// Whether it names anything.
    pub fn is_place(&self) -> bool {
        self.sdid.is_some() || self.id.is_some()
    }
}

/// The place, or `None` when nothing of it is there. Numbers that stand for "none" are none.
pub fn spod(text: &str) -> Option<Spod> {
    let mut spod = Spod::default();
    let mut any = false;
    for line in super::lines(text) {
        let Some((key, value)) = super::pair(&line) else { continue };
        let value = number(value);
        let field = match key.to_ascii_lowercase().as_str() {
            "sdid" => &mut spod.sdid,
            "super pod size" => &mut spod.size,
            "super pod id" => &mut spod.id,
            "server index" => &mut spod.server,
            _ => continue,
        };
        any = any || value.is_some();
        *field = value.and_then(given);
    }
    any.then_some(spod)
}

/// A number that is not the one for "none".
pub fn given(value: u32) -> Option<u32> {
    (value != NONE).then_some(value)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
