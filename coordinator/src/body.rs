//! The body of a request, read to a limit.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;

/// How much more than the limit is taken and thrown away. A caller that is still sending when the connection closes sees a broken
/// connection, not the answer that says why.
const THROWN_AWAY: usize = 1024 * 1024;

/// Why there is no body.
#[derive(Debug)]
pub enum Unread {
    /// It is larger than it may be.
    TooLarge,
    /// It did not come whole.
    Broken(axum::Error),
}

/// Reads a body of at most that many bytes. It takes as long as the caller takes to send: whoever calls has a time limit.
pub async fn read(mut body: Body, largest: usize) -> Result<Bytes, Unread> {
    let most = largest.saturating_add(THROWN_AWAY);
    // Who says beforehand that it is far too long need not send it.
    if body.size_hint().lower() > most as u64 {
        return Err(Unread::TooLarge);
    }
    let (mut kept, mut came) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        came = came.saturating_add(data.len());
        if came > most {
            break;
        }
        if came <= largest {
            kept.extend_from_slice(&data);
        }
    }
    if came > largest { Err(Unread::TooLarge) } else { Ok(kept.freeze()) }
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, StreamExt};

    use super::*;

    /// A body of pieces of that many bytes, which counts how many were asked for.
    fn pieces(sizes: &[usize]) -> (Body, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = asked.clone();
        let pieces: Vec<Bytes> = sizes.iter().map(|size| vec![b'x'; *size].into()).collect();
        let stream = stream::iter(pieces).map(move |piece| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(piece)
        });
        (Body::from_stream(stream), asked)
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_limit_and_what_is_a_little_more_is_taken_but_refused() {
        for (sizes, largest, fits, taken) in [
            (&[][..], 0, true, 0),
            (&[4, 6], 10, true, 2),
            (&[4, 6, 1], 10, false, 3),
            (&[11, 1, 1], 10, false, 3),
            // Nobody waits for the rest of a flood.
            (&[11, THROWN_AWAY, 1, 1], 10, false, 2),
        ] {
            let (body, asked) = pieces(sizes);
            let read = read(body, largest).await;
            match fits {
                true => assert_eq!(read.unwrap().len(), sizes.iter().sum::<usize>()),
                false => assert!(matches!(read, Err(Unread::TooLarge)), "{sizes:?}"),
            }
            let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(asked, taken, "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn a_body_that_says_it_is_far_too_long_is_not_read() {
        let body = Body::from(vec![b'x'; 11 + THROWN_AWAY]);
        assert!(matches!(read(body, 10).await, Err(Unread::TooLarge)));
    }
}
