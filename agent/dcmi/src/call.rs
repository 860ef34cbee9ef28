//! Room for what the library writes, and what its return codes mean.

use crate::Error;

/// Larger than any structure of the calls that are made; the largest known has 132 bytes.
const BYTES: usize = 4096;

/// Zeroed memory that the library may write any structure to.
#[repr(C, align(16))]
pub(crate) struct Room([u8; BYTES]);

// === impl Room ===

impl Room {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self([0; BYTES]))
    }

    pub(crate) fn as_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Some bytes of it; zeros beyond its end.
    pub(crate) fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    /// A number of the machine's byte order.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }
}

/// What a call returned.
pub(crate) fn check(call: &'static str, code: i32) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        -8012 => Err(Error::NotReady(call)),
        -8255 => Err(Error::NotSupported(call)),
        code => Err(Error::Code { call, code }),
    }
}
