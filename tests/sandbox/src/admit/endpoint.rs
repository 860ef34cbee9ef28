//! Where a webhook is: a URL or a Service, always on the loopback interface.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Uri;
use muster_objects::meta;
use parking_lot::RwLock;
use serde_json::Value;

use crate::store::Store;

/// Addresses of Services that webhooks may name, by namespace, name and port.
#[derive(Debug, Default)]
pub struct Services(RwLock<HashMap<(String, String, u16), SocketAddr>>);

/// A webhook to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The URL as messages show it.
    pub(super) url: String,
    /// Host and port for the request's header.
    pub(super) authority: String,
    pub(super) path: String,
    /// The name that the certificate must have.
    pub(super) server_name: String,
    /// The certificates that are trusted, as PEM.
    pub(super) ca: Vec<u8>,
    /// Where to connect to, or why that is not possible.
    pub(super) address: Result<SocketAddr, String>,
}

// === impl Services ===

impl Services {
    pub(super) fn new(map: HashMap<(String, String, u16), SocketAddr>) -> Self {
        Self(RwLock::new(map))
    }

    pub(super) fn insert(&self, namespace: &str, name: &str, port: u16, address: SocketAddr) {
        self.0.write().insert((namespace.to_owned(), name.to_owned(), port), address);
    }

    fn find(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
        store: &Store,
    ) -> Result<SocketAddr, String> {
        let key = (namespace.to_owned(), name.to_owned(), port);
        let given = self.0.read().get(&key).copied();
        let address = match given {
            Some(address) => address,
            None => stored_address(namespace, name, port, store)?,
        };
        on_loopback(address)
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The endpoint of a `clientConfig`; an error says what is wrong with it.
    pub(super) fn of(
        config: &Value,
        timeout: u64,
        services: &Services,
        store: &Store,
    ) -> Result<Self, String> {
        let ca = config["caBundle"].as_str().unwrap_or_default();
        let ca = BASE64.decode(ca).map_err(|error| format!("undecodable caBundle: {error}"))?;
        let service = &config["service"];
        let (host, port, path, shown, address) = if service.is_object() {
            let text = |field: &str| service[field].as_str().unwrap_or_default();
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            let port = port.filter(|port| *port != 0).unwrap_or(443);
            let (namespace, name) = (text("namespace"), text("name"));
            let host = format!("{name}.{namespace}.svc");
            let address = services.find(namespace, name, port, store);
            (host.clone(), port, text("path").to_owned(), format!("{host}:{port}"), address)
        } else {
            let url = config["url"].as_str().unwrap_or_default();
            let uri: Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
            let host = uri.host().unwrap_or_default();
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = uri.port_u16().unwrap_or(443);
            let shown = uri.authority().map(|a| a.to_string()).unwrap_or_default();
            let address = url_address(&host, port);
            (host, port, uri.path().to_owned(), shown, address)
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}?timeout={timeout}s");
        Ok(Self {
            url: format!("https://{shown}{path}"),
            authority: if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            },
            path,
            server_name: host,
            ca,
            address,
        })
    }
}

fn url_address(host: &str, port: u16) -> Result<SocketAddr, String> {
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().map_err(|_| {
            format!(
                "host {host:?} is not on the loopback interface; webhooks are called nowhere else"
            )
        })?,
    };
    on_loopback(SocketAddr::new(ip, port))
}

fn on_loopback(address: SocketAddr) -> Result<SocketAddr, String> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "address {address} is not on the loopback interface; webhooks are called nowhere else"
    ))
}

/// The address of a ready endpoint of a Service in the store.
fn stored_address(
    namespace: &str,
    name: &str,
    port: u16,
    store: &Store,
) -> Result<SocketAddr, String> {
    let service = store
        .get("services", namespace, name)
        .ok_or_else(|| format!("service {name:?} not found"))?;
    let ports = service.value["spec"]["ports"].as_array().into_iter().flatten();
    let port_name = ports
        .filter(|p| p["port"] == port)
        .map(|p| p["name"].as_str().unwrap_or_default().to_owned())
        .next()
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    for slice in store.list("endpointslices.discovery.k8s.io", Some(namespace)) {
        if meta::label(&slice.value, "kubernetes.io/service-name") != Some(name) {
            continue;
        }
        let mut ports = slice.value["ports"].as_array().into_iter().flatten();
        let port = ports.find(|p| p["name"].as_str().unwrap_or_default() == port_name);
        let port = port.and_then(|p| p["port"].as_u64()).and_then(|p| u16::try_from(p).ok());
        let endpoints = slice.value["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let mut addresses =
            ready.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
        let ip = addresses.find_map(|address| address.as_str()?.parse::<IpAddr>().ok());
        if let (Some(ip), Some(port)) = (ip, port) {
            return Ok(SocketAddr::new(ip, port));
        }
    }
    Err(format!("no endpoints available for service {name:?}"))
}
