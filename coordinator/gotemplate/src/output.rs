//! Bytes written so far, up to a bound.
//!
//! A writer past its bound drops what comes and remembers it: printing code need not check each write, its
//! caller asks once.

/// A bounded byte buffer.
#[derive(Debug)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    limit: usize,
    over: bool,
}

// === impl Output ===

impl Output {
    /// An empty buffer that takes up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, over: false }
    }

    /// Goes on after what the buffer holds.
    pub(crate) fn continuing(bytes: Vec<u8>, limit: usize) -> Self {
        let limit = limit.saturating_add(bytes.len());
        Self { bytes, limit, over: false }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.limit - self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.stop();
        }
    }

    #[inline]
    pub(crate) fn push_str(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Adds one byte.
    #[inline]
    pub(crate) fn push_byte(&mut self, byte: u8) {
        if self.bytes.len() < self.limit {
            self.bytes.push(byte);
        } else {
            self.stop();
        }
    }

    /// Adds a character.
    pub(crate) fn push_char(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    /// Adds the same byte many times.
    pub(crate) fn fill(&mut self, byte: u8, count: usize) {
        if count <= self.limit - self.bytes.len() {
            self.bytes.resize(self.bytes.len() + count, byte);
        } else {
            self.stop();
        }
    }

    /// Takes nothing more: what was written so far is a true beginning.
    #[cold]
    fn stop(&mut self) {
        self.over = true;
        self.limit = self.bytes.len();
    }

    /// Remembers that something was dropped elsewhere.
    pub(crate) fn set_over(&mut self, over: bool) {
        self.over |= over;
    }

    /// Whether something was dropped.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// What was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How much was written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
