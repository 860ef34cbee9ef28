//! Raw bytes on a socket: what no proper client would send.

use muster_sandbox::Sandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::caller::{PATIENCE, address};

/// A connection without manners.
pub struct Wire(pub TcpStream);

// === impl Wire ===

impl Wire {
    pub async fn open(sandbox: &Sandbox) -> Self {
        Self(TcpStream::connect(address(sandbox)).await.unwrap())
    }

    /// Sends bytes; a server that has closed already is no failure here.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _closed = self.0.write_all(bytes.as_ref()).await;
    }

    /// Says that nothing more comes, and reads what the server says until it closes.
    pub async fn rest(mut self) -> String {
        let _closed = self.0.shutdown().await;
        self.read_all().await
    }

    /// Everything until the server closes.
    pub async fn read_all(&mut self) -> String {
        let mut out = Vec::new();
        let read = self.0.read_to_end(&mut out);
        let _reset = tokio::time::timeout(PATIENCE, read).await.expect("the server never closes");
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The head of the next answer.
    pub async fn head(&mut self) -> String {
        let mut out = Vec::new();
        while !out.ends_with(b"\r\n\r\n") {
            let byte = tokio::time::timeout(PATIENCE, self.0.read_u8()).await.expect("no answer");
            let Ok(byte) = byte else { break };
            out.push(byte);
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The code of an answer's first line; none if there is no answer.
pub fn code(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
