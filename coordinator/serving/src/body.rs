//! The body of a request, read to a limit.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::timeout;

/// How much of a body that is refused is still taken and thrown away, and for how long. A caller that is sending when the connection
/// closes sees a broken connection, not the answer that says why.
const THROWN_AWAY: usize = 1024 * 1024;
const THROWN_AWAY_FOR: Duration = Duration::from_secs(5);

/// Why there is no body.
#[derive(Debug)]
pub enum Unread {
    /// It is larger than it may be.
    TooLarge,
    /// It did not come whole.
    Broken(axum::Error),
}

/// Reads a body of at most that many bytes. It takes as long as the caller takes to send: whoever calls has a time limit. A body that
/// is too large is refused at once, and what comes of it then is thrown away beside the answer.
pub async fn read(body: Body, largest: usize) -> Result<Bytes, Unread> {
    read_counted(body, largest, |_| {}).await
}

/// The same; `count` hears of the bytes as they come.
pub async fn read_counted(
    mut body: Body,
    largest: usize,
    mut count: impl FnMut(usize),
) -> Result<Bytes, Unread> {
    let mut kept = BytesMut::new();
    // Who says beforehand that it is too large is believed.
    let mut is_too_large = body.size_hint().lower() > largest as u64;
    while !is_too_large {
        let Some(frame) = body.frame().await else { return Ok(kept.freeze()) };
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        is_too_large = kept.len().saturating_add(data.len()) > largest;
        if !is_too_large {
            count(data.len());
            kept.extend_from_slice(&data);
        }
    }
    tokio::spawn(timeout(THROWN_AWAY_FOR, throw_away(body)));
    Err(Unread::TooLarge)
}

async fn throw_away(mut body: Body) {
    let mut left = THROWN_AWAY;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use futures::stream::{self, StreamExt};
    use hyper::body::{Frame, SizeHint};
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    /// A body of pieces of that many bytes; how many were taken, and the moment at which nobody reads it any more.
    fn pieces(sizes: &[usize]) -> (Body, Arc<AtomicUsize>, oneshot::Receiver<()>) {
        let (taken, (left, is_left)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
        let counted = taken.clone();
        let pieces: Vec<Bytes> = sizes.iter().map(|size| vec![b'x'; *size].into()).collect();
        let stream = stream::iter(pieces).map(move |piece| {
            let _until_dropped = &left;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(piece)
        });
        (Body::from_stream(stream), taken, is_left)
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_limit_and_a_little_more_is_taken_but_refused() {
        for (sizes, largest, fits, taken) in [
            (&[][..], 0, true, 0),
            (&[4, 6], 10, true, 2),
            (&[4, 6, 1], 10, false, 3),
            (&[11, 1, 1], 10, false, 3),
            // Nobody waits for the rest of a flood.
            (&[11, THROWN_AWAY, 1, 1], 10, false, 2),
        ] {
            let (body, counted, is_left) = pieces(sizes);
            match read(body, largest).await {
                Ok(read) => assert_eq!((fits, read.len()), (true, sizes.iter().sum()), "{sizes:?}"),
                Err(error) => assert!(!fits && matches!(error, Unread::TooLarge), "{sizes:?}"),
            }
            assert!(is_left.await.is_err(), "it is dropped");
            assert_eq!(counted.load(Ordering::Relaxed), taken, "{sizes:?}");
        }
    }

    /// A body that says that it has that many bytes, and sends none.
    struct Declared(u64);

    impl hyper::body::Body for Declared {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_says_it_is_too_large_is_refused_before_it_comes() {
        let began = Instant::now();
        let refused = read(Body::new(Declared(11)), 10).await;
        assert!(matches!(refused, Err(Unread::TooLarge)));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
