//! The body of a list: put together from the stored bytes, piece by piece while it is sent.
//!
//! A list of thousands of objects never lies in memory as a whole, and its client reads the beginning
//! while the end is still to be written.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::kinds::Kind;
use crate::store::Object;

/// About the size of a piece: small enough to stay in the processor's cache.
const PIECE: usize = 256 * 1024;

const END: &[u8] = b"]}";

/// What is left to send of a list.
#[derive(Debug)]
pub struct Listing {
    /// The beginning, until it is sent.
    head: String,
    /// What stands before each object's stored bytes, less their brace.
    opening: String,
    objects: Vec<Arc<Object>>,
    next: usize,
    left: usize,
}

// === impl Listing ===

impl Listing {
    /// A list of these objects. Items of custom resources carry their type.
    pub fn new(kind: &Kind, objects: Vec<Arc<Object>>, metadata: &Value) -> Self {
        let opening = if kind.custom.is_some() { kind.opening() } else { "{".to_owned() };
        let head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            kind.list_kind,
            kind.api_version()
        );
        let commas = objects.len().saturating_sub(1);
        let items: usize = objects.iter().map(|o| opening.len() + bare(o).len()).sum();
        let left = head.len() + items + commas + END.len();
        Self { head, opening, objects, next: 0, left }
    }

    fn piece(&mut self) -> Bytes {
        let mut out = Vec::with_capacity(self.left.min(PIECE + PIECE / 4));
        out.extend_from_slice(self.head.as_bytes());
        self.head.clear();
        while let Some(object) = self.objects.get(self.next)
            && out.len() < PIECE
        {
            if self.next > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.opening.as_bytes());
            out.extend_from_slice(bare(object));
            self.next += 1;
        }
        if self.next == self.objects.len() {
            out.extend_from_slice(END);
        }
        self.left = self.left.saturating_sub(out.len());
        out.into()
    }
}

/// The stored bytes without their opening brace.
fn bare(object: &Object) -> &[u8] {
    object.bare.get(1..).unwrap_or(b"}")
}

impl http_body::Body for Listing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(this.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

impl From<Listing> for Body {
    fn from(listing: Listing) -> Self {
        Self::new(listing)
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    use super::*;
    use crate::kinds::Kinds;

    #[tokio::test]
    async fn the_pieces_are_the_list_and_as_long_as_it_said() {
        let kind = Kinds::builtin().now().get("", "v1", "configmaps").unwrap();
        for (count, size) in [(0, 0), (1, 10), (3, 200_000), (700, 1_000)] {
            let item = |n| json!({"data": {"text": "x".repeat(size)}, "metadata": {"name": format!("a-{n}")}});
            let objects = (0..count).map(|n| Arc::new(Object::unstored(item(n)))).collect();
            let list = Listing::new(&kind, objects, &json!({"resourceVersion": "7"}));
            let said = list.size_hint().exact().unwrap();
            let sent = list.collect().await.unwrap().to_bytes();
            assert_eq!(sent.len() as u64, said, "{count} objects");
            let value: Value = serde_json::from_slice(&sent).unwrap();
            let items: Vec<Value> = (0..count).map(item).collect();
            let expected = json!({"kind": "ConfigMapList", "apiVersion": "v1",
                "metadata": {"resourceVersion": "7"}, "items": items});
            assert_eq!(value, expected, "{count} objects");
        }
    }
}
