//! A client of the Kubernetes API that waits for nobody for ever: an API server, or a balancer before it, that takes connections and
//! says nothing must not stop a program without a word.

use std::time::Duration;

use anyhow::Context;
use kube::{Client, Config};

/// A connection is made in this time, or tried again by who asked.
const CONNECT: Duration = Duration::from_secs(10);

/// What is sent is taken in this time.
const WRITE: Duration = Duration::from_secs(30);

/// An answer says something at least so often. Watches say at least a bookmark each minute; one that says nothing for longer is
/// opened anew.
const READ: Duration = Duration::from_secs(90);

/// A client by KUBECONFIG, `~/.kube/config` or the pod's own account.
///
/// # Errors
/// Why there is none.
pub async fn connect() -> anyhow::Result<Client> {
    let config = Config::infer().await;
    let config = config.context("no Kubernetes API: run in a pod, or set KUBECONFIG")?;
    Client::try_from(bounded(config)).context("the Kubernetes API's settings")
}

/// The configuration with a limit for each thing that a client waits for.
fn bounded(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(WRITE);
    config.read_timeout = Some(READ);
    // A connection that was idle has its whole time for the next answer.
    config.reset_reader_on_write = true;
    // Whoever asks tries again, and first looks whether it still may: a leader's write must not be sent behind its back.
    config.default_retry = false;
    config
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::*;

    /// A client of a server that does this with each connection.
    async fn client_of<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Client
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        Client::try_from(bounded(config)).unwrap()
    }

    /// Reads for ever, and says nothing.
    async fn listen(mut stream: TcpStream) {
        let mut taken = [0; 4096];
        while stream.read(&mut taken).await.is_ok_and(|count| count > 0) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up() {
        let client = client_of(listen).await;
        let began = Instant::now();
        let asked = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await;
        assert!(asked.is_err());
        assert_eq!(began.elapsed().as_secs(), READ.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_falls_silent_ends() {
        let client = client_of(|mut stream: TcpStream| async move {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
            let _asked = stream.read(&mut [0; 4096]).await;
            let _sent = stream.write_all(head).await;
            listen(stream).await;
        })
        .await;
        let began = Instant::now();
        let pods = Api::<Pod>::default_namespaced(client);
        let mut events = std::pin::pin!(pods.watch(&WatchParams::default(), "0").await.unwrap());
        let said = futures::StreamExt::next(&mut events).await;
        assert!(!matches!(said, Some(Ok(_))), "{said:?}");
        assert_eq!(began.elapsed().as_secs(), READ.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_told_and_nothing_is_sent_again() {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let client = client_of(move |mut stream: TcpStream| {
            let tell = tell.clone();
            async move {
                let mut taken = [0; 4096];
                while stream.read(&mut taken).await.is_ok_and(|count| count > 0) {
                    let _heard = tell.send(());
                    let said = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
                    let _sent = stream.write_all(said).await;
                }
            }
        })
        .await;
        let asked = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await;
        assert!(asked.is_err());
        assert_eq!((told.try_recv().is_ok(), told.try_recv().is_ok()), (true, false));
    }
}
