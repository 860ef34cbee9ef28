//! How the engine starts, stops and restarts a node.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, Error};
use muster_objects::meta;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::podresources::{self, View};
use super::super::post::is_final;
use super::super::watch::value;
use super::super::{KubeletError, checkpoint, node};
use super::{Engine, Event, Node};

impl Engine {
    /// Reads the checkpoint, registers devices and opens the socket.
    pub(super) async fn boot(&mut self, name: &str) -> Result<(), KubeletError> {
        let Some(node) = self.nodes.get_mut(name) else { return Ok(()) };
        let spec = node.state.spec.clone();
        let failed = |error| KubeletError::Files { node: spec.name.clone(), error };
        let text = match spec.files {
            true => std::fs::read_to_string(spec.root.join(CHECKPOINT)).unwrap_or_default(),
            false => node.disk.clone(),
        };
        {
            let mut view = node.state.view.lock();
            *view = View::default();
            if let Some(resource) = spec.profile.resource() {
                view.devices.register(resource, spec.profile.devices(spec.index));
            }
            match checkpoint::read(&text) {
                Ok(held) => view.devices.restore(held),
                Err(_) if text.is_empty() => {}
                // As the kubelet does: a damaged checkpoint is started without.
                Err(error) => tracing::warn!(node = name, %error, "checkpoint is not used"),
            }
        }
        node.service = CancellationToken::new();
        if spec.pod_resources {
            let socket = spec.root.join(muster_proto::podresources::SOCKET);
            let view = node.state.view.clone();
            let served = podresources::serve(&socket, view, node.service.clone()).await;
            node.served = Some(served.map_err(failed)?);
        }
        node.save().map_err(failed)?;
        node.state.up.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Loses everything that a kubelet has in memory.
    pub(super) async fn halt(&mut self, name: &str) {
        self.pods.retain(|_, pod| pod.node != name);
        let (epoch, life) = (self.next_epoch(), self.stop.child_token());
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.state.up.store(false, Ordering::Relaxed);
        // What this kubelet began must not meddle with the next one's work.
        node.life.cancel();
        (node.epoch, node.life) = (epoch, life);
        node.service.cancel();
        if let Some(served) = node.served.take() {
            served.abort();
            let _ended = served.await;
        }
        node.aside = None;
        node.addresses.clear();
        node.state.view.lock().pods.clear();
    }

    pub(super) async fn restart(
        &mut self,
        name: String,
        done: oneshot::Sender<Result<(), KubeletError>>,
    ) {
        self.halt(&name).await;
        if let Err(error) = self.boot(&name).await {
            let _heard = done.send(Err(error));
            return;
        }
        let Some(node) = self.nodes.get_mut(&name) else { return };
        // Until the pods are read, what the watch says of this node is kept aside.
        node.aside = Some(Vec::new());
        node.state.up.store(false, Ordering::Relaxed);
        let (client, events) = (self.client.clone(), self.events.clone());
        let status = node.state.status(self.clock.now());
        let epoch = node.epoch;
        // When the kubelet is stopped meanwhile, whoever asked hears that nobody answers.
        self.tasks.spawn(node.life.clone().run_until_cancelled_owned(async move {
            let pods = reread(&client, &name, &status).await.map_err(|error| {
                KubeletError::Register { node: name.clone(), error: Box::new(error) }
            });
            let _sent = events.send(Event::Reread { node: name, epoch, pods, done });
        }));
    }

    /// Goes on with the pods that the API has; without them the node stays down.
    pub(super) fn reread(
        &mut self,
        name: &str,
        epoch: u64,
        pods: Result<Vec<Value>, KubeletError>,
    ) -> Result<(), KubeletError> {
        let node = self.nodes.get_mut(name).filter(|node| node.epoch == epoch);
        let Some(node) = node else { return Err(KubeletError::Stopped) };
        let aside = node.aside.take();
        let pods = pods.inspect_err(|error| {
            tracing::warn!(node = name, %error, "the kubelet gives up to start again");
        })?;
        let uids: HashSet<String> = pods.iter().map(|p| meta::uid(p).to_owned()).collect();
        node.state.up.store(true, Ordering::Relaxed);
        node.state.view.lock().devices.keep_only(|uid| uids.contains(uid));
        self.keep_only(&uids, Some(name));
        for pod in pods.into_iter().chain(aside.into_iter().flatten()) {
            self.applied(pod);
        }
        Ok(())
    }

    pub(super) fn set_health(
        &mut self,
        name: &str,
        device: &str,
        healthy: bool,
        done: oneshot::Sender<bool>,
    ) {
        let Some(node) = self.nodes.get_mut(name) else {
            let _heard = done.send(false);
            return;
        };
        let found = node.state.view.lock().devices.set_health(device, healthy);
        if let Err(error) = node.save() {
            tracing::warn!(node = name, %error, "checkpoint");
        }
        let (client, name) = (self.client.clone(), name.to_owned());
        let status = node.state.status(self.clock.now());
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(async move {
            if found && let Err(error) = node::write_status(&client, &name, &status).await {
                tracing::warn!(node = name, %error, "status of the node");
            }
            let _heard = done.send(found);
        }));
    }
}

// === impl Node ===

const CHECKPOINT: &str = muster_proto::deviceplugin::CHECKPOINT;

impl Node {
    /// Writes the checkpoint.
    pub(super) fn save(&mut self) -> std::io::Result<()> {
        let text = checkpoint::write(&self.state.view.lock().devices);
        let text = text.map_err(std::io::Error::other)?;
        if !self.state.spec.files {
            self.disk = text;
            return Ok(());
        }
        let path = self.state.spec.root.join(CHECKPOINT);
        let directory = path.parent().unwrap_or(&self.state.spec.root);
        std::fs::create_dir_all(directory)?;
        // A temporary file is for its owner only, and so is the checkpoint.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(&path)?;
        Ok(())
    }

    /// The lowest free address for a pod.
    pub(super) fn address(&mut self) -> String {
        let free = (2..=254).find(|n| !self.addresses.contains(n)).unwrap_or(255);
        self.addresses.insert(free);
        format!("{}.{free}", node::pod_network(self.state.spec.index))
    }
}

/// The pods of the node, once its status is written; tried again but for refusals.
async fn reread(client: &Client, name: &str, status: &Value) -> Result<Vec<Value>, Error> {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let mut wait = Duration::from_millis(50);
    loop {
        let read = async {
            let list = api.list(&params).await?;
            node::write_status(client, name, status).await?;
            Ok(list.items.iter().map(value).collect())
        };
        match read.await {
            Err(Error::Api(refused)) if refused.code == 404 || is_final(refused.code) => {
                return Err(Error::Api(refused));
            }
            Err(error) => tracing::debug!(node = name, %error, "restart is tried again"),
            done => return done,
        }
        // The network's time, not the sandbox's.
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

pub(super) fn last_byte(address: &str) -> Option<u8> {
    address.rsplit('.').next()?.parse().ok()
}
