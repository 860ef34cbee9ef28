//! What a Service does: one address, and whoever is alive behind it answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An address on loopback that stands for several.
pub struct Service {
    address: SocketAddr,
    behind: Arc<Mutex<Vec<SocketAddr>>>,
    _serving: JoinSet<()>,
}

// === impl Service ===

impl Service {
    /// Nobody is behind it yet.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let behind: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let mut serving = JoinSet::new();
        let known = behind.clone();
        serving.spawn(async move {
            let next = AtomicUsize::new(0);
            let mut calls = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((caller, _)) = accepted {
                        let mut order = known.lock().clone();
                        if !order.is_empty() {
                            let first = next.fetch_add(1, Ordering::Relaxed) % order.len();
                            order.rotate_left(first);
                        }
                        calls.spawn(forward(caller, order));
                    },
                    Some(_) = calls.join_next() => {}
                }
            }
        });
        Ok(Self { address, behind, _serving: serving })
    }

    /// Where it is called.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Somebody is behind it now.
    pub fn add(&self, address: SocketAddr) {
        self.behind.lock().push(address);
    }

    /// Somebody is not any more.
    pub fn remove(&self, address: SocketAddr) {
        self.behind.lock().retain(|known| *known != address);
    }
}

async fn forward(mut caller: TcpStream, behind: Vec<SocketAddr>) {
    for address in behind {
        if let Ok(mut called) = TcpStream::connect(address).await {
            let _ended = (caller.set_nodelay(true), called.set_nodelay(true));
            let _ended = tokio::io::copy_bidirectional(&mut caller, &mut called).await;
            return;
        }
    }
}
