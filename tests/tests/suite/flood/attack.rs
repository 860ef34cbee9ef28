//! Callers who shout: many connections, opened again whenever they are closed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use muster_coordinator::run::Coordinator;
use muster_proto::link::v1::link_client::LinkClient;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Channel, Endpoint};

/// How long a caller rests whose connection was closed.
const RESTS: Duration = Duration::from_millis(250);

/// How long one that drips waits between two bytes.
const DRIPS: Duration = Duration::from_millis(200);

/// How a caller shouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shout {
    /// It says nothing.
    Nothing,
    /// The head of its request drips.
    SlowHead,
    /// The head is there, the body drips.
    SlowBody,
    /// It asks once and keeps its connection.
    Once,
    /// Its body is larger than any may be.
    HugeBody,
    /// HTTP/2, with a frame larger than any may be.
    HugeFrame,
    /// One stream after the other, with tokens that nobody has given out.
    InventedToken,
}

/// Where callers come from; never the addresses that probes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    OneAddress,
    ManyAddresses,
}

/// What is shouted at.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    tls: Option<TlsConnector>,
}

/// Callers that shout, on threads of their own as strangers would.
pub struct Attack {
    runtime: Runtime,
    opened: Arc<AtomicUsize>,
}

/// A connection, with TLS or without.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<W: AsyncRead + AsyncWrite + Send + Unpin> Wire for W {}

// === impl Crowd ===

impl Crowd {
    fn address(self, number: usize) -> Ipv4Addr {
        match self {
            Self::OneAddress => Ipv4Addr::new(127, 0, 1, 1),
            Self::ManyAddresses => {
                let [_, _, high, low] =
                    u32::try_from(number % 1000).unwrap_or_default().to_be_bytes();
                Ipv4Addr::new(127, 0, 2 + high, low)
            }
        }
    }
}

// === impl Target ===

impl Target {
    /// Without TLS, also where there should be some.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// With TLS, and this protocol.
    pub fn tls(address: SocketAddr, coordinator: &Coordinator, protocol: &[u8]) -> Result<Self> {
        let authorities = coordinator.certificates().authorities().borrow().clone();
        let authorities = authorities.context("the coordinator has no certificate")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(certificate?)?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self { address, tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    /// Whether TLS is spoken.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A connection from that address.
    pub async fn connect(&self, from: Ipv4Addr) -> Result<Box<dyn Wire>> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream: TcpStream = socket.connect(self.address).await?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(ServerName::try_from("localhost")?, stream).await?),
        })
    }

    /// What gRPC is spoken on, from that address.
    pub async fn channel(&self, from: Ipv4Addr) -> Result<Channel> {
        let own = self.clone();
        let connect = tower::service_fn(move |_| {
            let own = own.clone();
            async move { anyhow::Ok(TokioIo::new(own.connect(from).await?)) }
        });
        // The connector speaks TLS, where there is any.
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))?;
        Ok(endpoint.connect_with_connector(connect).await?)
    }
}

// === impl Attack ===

impl Attack {
    /// So many connections begin to shout.
    pub fn begin(target: &Target, how: Shout, crowd: Crowd, connections: usize) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let opened = Arc::new(AtomicUsize::new(0));
        for number in 0..connections {
            let (target, opened) = (target.clone(), opened.clone());
            let from = crowd.address(number);
            runtime.spawn(async move {
                loop {
                    // Whoever is turned away comes back.
                    let _ended = shout(&target, how, from, &opened).await;
                    tokio::time::sleep(RESTS).await;
                }
            });
        }
        Ok(Self { runtime, opened })
    }

    /// They all fall silent; how many connections there were, one after the other.
    pub fn end(self) -> usize {
        self.runtime.shutdown_background();
        self.opened.load(Ordering::Relaxed)
    }
}

async fn shout(target: &Target, how: Shout, from: Ipv4Addr, opened: &AtomicUsize) -> Result<()> {
    if how == Shout::InventedToken {
        return invent(target.channel(from).await?, opened).await;
    }
    let mut wire = target.connect(from).await?;
    opened.fetch_add(1, Ordering::Relaxed);
    let head =
        "POST /mutate-pods HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    match how {
        Shout::Nothing | Shout::InventedToken => {}
        Shout::SlowHead => drip(&mut wire, &format!("{head}x-slow: ")).await?,
        Shout::SlowBody => drip(&mut wire, &format!("{head}content-length: 1000\r\n\r\n")).await?,
        Shout::Once => {
            wire.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
        }
        Shout::HugeBody => {
            let head = format!("{head}transfer-encoding: chunked\r\n\r\n");
            wire.write_all(head.as_bytes()).await?;
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
            loop {
                wire.write_all(chunk.as_bytes()).await?;
            }
        }
        Shout::HugeFrame => {
            wire.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
            // SETTINGS, then DATA of 16 MiB.
            wire.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
            wire.write_all(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]).await?;
            wire.write_all(&[0; 0x1_0000]).await?;
        }
    }
    let mut heard = [0; 1024];
    while wire.read(&mut heard).await? > 0 {}
    Ok(())
}

async fn drip(wire: &mut Box<dyn Wire>, head: &str) -> Result<()> {
    wire.write_all(head.as_bytes()).await?;
    loop {
        wire.write_all(b"x").await?;
        tokio::time::sleep(DRIPS).await;
    }
}

async fn invent(channel: Channel, opened: &AtomicUsize) -> Result<()> {
    let mut client = LinkClient::new(channel);
    loop {
        let token = format!("Bearer {}", rand::random::<u128>());
        let mut request = tonic::Request::new(futures::stream::pending());
        request.metadata_mut().insert("authorization", token.parse()?);
        opened.fetch_add(1, Ordering::Relaxed);
        if client.open(request).await.is_err_and(|why| why.code() == tonic::Code::Unavailable) {
            tokio::time::sleep(RESTS).await;
        }
    }
}
