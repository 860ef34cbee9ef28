//! Certificates that change while agents are linked.

use std::sync::Arc;

use jiff::Timestamp;
use muster_serving::certs::serving::{CertificateSender, Certificates, certificates};
use muster_serving::certs::{Bundle, Names, RenewalStep, remake, renew};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::world::{LIMIT, NAME, Served, World, pods, quick, until};

fn names() -> Names {
    Names::new([NAME])
}

fn made(world: &World) -> (Bundle, CertificateSender, Certificates) {
    let bundle = remake(Timestamp::now(), &names()).unwrap();
    let (change, certificates) = certificates();
    std::fs::write(world.path("ca.crt"), &bundle.authorities).unwrap();
    (bundle, change, certificates)
}

/// The certificate that a new connection meets, if it can be believed.
async fn met(served: &Served, authorities: &str) -> Option<CertificateDer<'static>> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = TcpStream::connect(served.address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let shake = TlsConnector::from(Arc::new(config)).connect(name, socket);
    let stream = tokio::time::timeout(LIMIT, shake).await.unwrap().ok()?;
    Some(stream.get_ref().1.peer_certificates().unwrap()[0].clone())
}

fn of(bundle: &Bundle) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(bundle.certificate.as_bytes()).unwrap()
}

#[tokio::test]
async fn old_streams_go_on_and_new_ones_meet_the_new_certificate() {
    let world = World::new();
    let (first, change, certificates) = made(&world);
    let tls = certificates.server_config(&[b"h2"]).unwrap();
    let served = Served::start(world.new_hub(quick(), 1), 0, Some(tls)).await;
    assert_eq!(met(&served, &first.authorities).await, None, "there is no certificate yet");
    change.serve(&first).unwrap();
    certificates.ready().await;
    let mut old = world.agent(&served);
    old.pods.send_replace(pods(&["a"]));
    old.up().await;
    assert_eq!(met(&served, &first.authorities).await.unwrap(), of(&first));

    // The same authority, then another one: each time the stream that is there does not notice.
    let now = Timestamp::now();
    let second = renew(RenewalStep::Certificate, now, &first, &names()).unwrap();
    change.serve(&second).unwrap();
    assert_ne!(of(&second), of(&first));
    assert_eq!(met(&served, &first.authorities).await.unwrap(), of(&second));
    let announced = renew(RenewalStep::Announce, now, &second, &names()).unwrap();
    change.serve(&announced).unwrap();
    assert_eq!(met(&served, &first.authorities).await.unwrap(), of(&second));
    let third = renew(RenewalStep::Adopt, now, &announced, &names()).unwrap();
    change.serve(&third).unwrap();
    assert_eq!(met(&served, &announced.authorities).await.unwrap(), of(&third));
    assert_eq!(met(&served, &first.authorities).await, None, "its authority is not known there");

    std::fs::write(world.path("ca.crt"), &announced.authorities).unwrap();
    world.tokens.0.lock().insert("token-n2".into(), "n2".into());
    std::fs::write(world.path("token2"), "token-n2").unwrap();
    let mut settings = world.settings(&served.url());
    settings.token_file = world.path("token2");
    let mut new = crate::world::Agent::start(settings, "n2", Arc::default());
    new.up().await;
    until("pods", || served.hub.pods().contains_key("n1")).await;
    served.deliver("n1", "a", 1, b"table");
    until("the table", || old.shelf.has("a").is_some()).await;
    assert_eq!(old.status.borrow().connects, 1, "the old stream is the first one");
    assert_eq!(old.problems.raised(), []);
    old.stop().await;
    new.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_bundle_that_makes_no_sense_leaves_what_is_served() {
    let world = World::new();
    let (first, change, certificates) = made(&world);
    let tls = certificates.server_config(&[b"h2"]).unwrap();
    let served = Served::start(world.new_hub(quick(), 1), 0, Some(tls)).await;
    change.serve(&first).unwrap();
    let bad = Bundle { key: "nothing".to_owned(), ..first.clone() };
    assert_eq!(change.serve(&bad).unwrap_err().reason(), "unreadable");
    assert_eq!(met(&served, &first.authorities).await.unwrap(), of(&first));
    served.stop().await;
}

#[tokio::test]
async fn handshakes_that_hang_hold_up_nobody() {
    let world = World::new();
    let served = world.hub(quick(), 1).await;
    let mut mute = Vec::new();
    for _ in 0..20 {
        mute.push(TcpStream::connect(served.address).await.unwrap());
    }
    until("in", || served.hub.metrics().connections.get() == 20).await;
    let mut agent = world.agent(&served);
    agent.up().await;
    assert_eq!(served.hub.metrics().connections.get(), 21, "they still hang");
    agent.stop().await;
    served.stop().await;
}
