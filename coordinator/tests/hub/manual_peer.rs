//! A peer whose messages a test writes by hand.

use muster_proto::link::v1::link_client::LinkClient;
use muster_proto::link::{FromAgent, FromHub, Hello, PROTOCOL, PodsChanged, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

use crate::world::{LIMIT, Served, pods};

/// A peer whose messages a test writes by hand.
pub struct ManualPeer {
    pub say: mpsc::Sender<v1::FromAgent>,
    pub incoming: Streaming<v1::FromHub>,
}

impl ManualPeer {
    /// Opens a stream of node n1.
    pub async fn open(served: &Served) -> Self {
        Self::with_token(served, "token-n1").await.unwrap()
    }

    /// Opens a stream, or is refused.
    pub async fn with_token(served: &Served, token: &str) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
        let mut client = LinkClient::new(endpoint.connect().await.unwrap());
        let (say, messages) = mpsc::channel(8);
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let incoming = client.open(request).await?.into_inner();
        Ok(Self { say, incoming })
    }

    pub async fn say(&self, message: FromAgent) {
        self.say.send((&message).into()).await.unwrap();
    }

    /// Says Hello and which pods there are, and hears Welcome.
    pub async fn greet(&mut self, uids: &[&str]) {
        self.say(FromAgent::Hello(Hello {
            protocol: PROTOCOL,
            node: "n1".into(),
            boot_id: String::new(),
            version: String::new(),
            instance: String::new(),
            inventory: None,
            pods: None,
            delivered: Vec::new(),
        }))
        .await;
        let first = self.incoming.message().await.unwrap().unwrap();
        assert!(matches!(FromHub::try_from(first), Ok(FromHub::Welcome(_))));
        let (upserts, gone) = (pods(uids).to_vec(), Vec::new());
        self.say(FromAgent::Pods(PodsChanged { full: true, upserts, gone })).await;
    }

    /// The next word that is not a part of a table.
    pub async fn hear(&mut self) -> Result<FromHub, Status> {
        loop {
            let message = self.incoming.message().await?.expect("the stream has an end");
            match FromHub::try_from(message).unwrap() {
                FromHub::Chunk(_) => {}
                other => return Ok(other),
            }
        }
    }

    /// What the hub calls the end of the stream; waits for it.
    pub async fn end(mut self) -> String {
        let end = async {
            loop {
                if let Err(status) = self.hear().await {
                    return reason(&status);
                }
            }
        };
        tokio::time::timeout(LIMIT, end).await.expect("the stream ends")
    }
}

/// What the hub calls a refusal.
pub fn reason(status: &Status) -> String {
    let said = status.metadata().get("muster-reason");
    said.map_or_else(|| format!("{status:?}"), |said| said.to_str().unwrap().to_owned())
}
