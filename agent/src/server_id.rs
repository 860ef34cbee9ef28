//! The address that names this server in rank tables.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use muster_proto::device::Inventory;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::discover::net::{self, ServerIdSource};
use crate::pods;
use crate::problem::{Area, Finding, Problems};

/// How often the Node object is read again: its address hardly ever changes.
const AGAIN: Duration = Duration::from_secs(300);

const SUBJECT: &str = "server_id";

/// Keeps `chosen` up to date until it is closed.
pub async fn follow(
    source: ServerIdSource,
    client: Client,
    node: String,
    mut inventory: watch::Receiver<Arc<Inventory>>,
    problems: Problems,
    chosen: watch::Sender<Option<String>>,
) {
    let mut internal: Option<IpAddr> = None;
    let mut due = Instant::now();
    loop {
        if source == ServerIdSource::InternalIp && due <= Instant::now() {
            tokio::select! {
                () = chosen.closed() => return,
                address = pods::node_address(&client, &node, &problems) => internal = Some(address),
            }
        }
        if due <= Instant::now() {
            due = Instant::now() + AGAIN;
        }
        let addresses = inventory.borrow_and_update().addresses.clone();
        match net::server_id(&source, &addresses, internal) {
            Ok(address) => {
                problems.clear(Area::ServerId, SUBJECT);
                let address = Some(address.to_string());
                chosen.send_if_modified(|known| {
                    let changed = *known != address;
                    if changed {
                        tracing::info!(server_id = address, "server_id chosen");
                        known.clone_from(&address);
                    }
                    changed
                });
            }
            Err(error) => {
                problems.raise(Area::ServerId, Finding::new("no-server-id", SUBJECT, error))
            }
        }
        tokio::select! {
            () = chosen.closed() => return,
            () = tokio::time::sleep_until(due) => {}
            changed = inventory.changed() => if changed.is_err() { return },
        }
    }
}
