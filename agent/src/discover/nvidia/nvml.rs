//! Asking NVML, the driver's library, opened at run time.
//!
//! It runs in our process, so a call that hangs cannot be killed: it is left behind on its thread, and the library
//! is not called again until that call has returned. It is closed after each question; nothing of it stays open.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_proto::device::{Mig, PciAddress};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use tokio::sync::{Semaphore, oneshot};

use super::facts::{Call, Joins, News};
use super::parse::{self, MOST};
use crate::discover::matrix::plain;
use crate::host::Host;

/// Where distributions and NVIDIA's driver container put it.
const PLACES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/usr/lib/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
];

/// How long all calls together may take.
const LIMIT: Duration = Duration::from_secs(20);

/// How many links one GPU may have, and slices.
const LINKS: u32 = 64;
const SLICES: u32 = 64;

/// The library of one node.
#[derive(Clone, Debug)]
pub(super) struct Library {
    free: Arc<Semaphore>,
    limit: Duration,
}

/// Why the library says nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum NvmlUnheard {
    /// It is not on this node.
    #[error("libnvidia-ml.so.1 is not there")]
    Absent,
    /// Somebody else could have changed it.
    #[error("{0} is not opened: it belongs to somebody else or others may write to it")]
    Untrusted(String),
    /// A call has not come back.
    #[error("NVML gave no answer within {0:?}; a GPU or the driver hangs")]
    Hangs(Duration),
    /// It said no.
    #[error("NVML: {0}")]
    Failed(String),
}

// === impl NvmlUnheard ===

impl NvmlUnheard {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent => "nvml-absent",
            Self::Untrusted(_) => "nvml-untrusted",
            Self::Hangs(_) => "nvml-hangs",
            Self::Failed(_) => "nvml-failed",
        }
    }
}

// === impl Library ===

impl Default for Library {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(1)), limit: LIMIT }
    }
}

impl Library {
    /// Which of these GPUs the library has lost, and if `whole` what it knows of slices and links.
    pub async fn ask(
        &self,
        host: &Host,
        gpus: &[PciAddress],
        all: bool,
    ) -> Result<News, NvmlUnheard> {
        let (host, gpus) = (host.clone(), gpus.to_vec());
        let Ok(turn) = Arc::clone(&self.free).try_acquire_owned() else {
            return Err(NvmlUnheard::Hangs(self.limit));
        };
        let failed = |error: &dyn std::error::Error| NvmlUnheard::Failed(error.to_string());
        // A thread of its own: the runtime waits for its blocking threads when it ends, for ever if need be.
        let (say, asked) = oneshot::channel();
        let call = move || {
            let failed = |error: NvmlError| NvmlUnheard::Failed(error.to_string());
            let news = place(&host).and_then(|place| news(&place, &gpus, all).map_err(failed));
            drop(turn);
            // Nobody listens any more when it took too long.
            let _late = say.send(news);
        };
        let thread = std::thread::Builder::new().name("nvml".to_owned()).spawn(call);
        thread.map_err(|error| failed(&error))?;
        match tokio::time::timeout(self.limit, asked).await {
            Ok(Ok(news)) => news,
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(NvmlUnheard::Hangs(self.limit)),
        }
    }
}

/// The library's file, if nobody but root and we can have written it.
fn place(host: &Host) -> Result<PathBuf, NvmlUnheard> {
    let found = PLACES.iter().find_map(|place| host.resolve(place).ok());
    let path = host.path(&found.ok_or(NvmlUnheard::Absent)?.to_string_lossy());
    let us = nix::unistd::geteuid().as_raw();
    let safe = path.symlink_metadata().is_ok_and(|found| {
        [0, us].contains(&found.uid()) && found.mode() & 0o022 == 0 && found.is_file()
    });
    safe.then_some(path.clone()).ok_or(NvmlUnheard::Untrusted(path.display().to_string()))
}

fn news(place: &Path, gpus: &[PciAddress], all: bool) -> Result<News, NvmlError> {
    let nvml = Nvml::builder().lib_path(place.as_os_str()).init()?;
    let mut news = News::default();
    let mut links: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
    for index in 0..nvml.device_count()?.min(MOST) {
        // Some that are lost have no handle, so no address: see below.
        let Ok(device) = nvml.device_by_index(index) else { continue };
        let Some(pci) = address(device.pci_info()) else { continue };
        let call = call(index, &device);
        let well = call.fault.is_none();
        news.calls.insert(pci, call);
        // Of one that is lost the library knows nothing more: what was known stays.
        if all && well {
            news.slices.extend(slices(&device).map(|slices| (pci, slices)));
            let active = |link: &u32| device.link_wrapper_for(*link).is_active().unwrap_or(false);
            let far = |link: u32| address(device.link_wrapper_for(link).remote_pci_info());
            links.insert(pci, (0..LINKS).filter(active).filter_map(far).collect());
        }
    }
    for pci in gpus {
        if !news.calls.contains_key(pci)
            && let Some(fault) = nvml.device_by_pci_bus_id(pci.to_string()).err().and_then(fault)
        {
            news.calls.insert(*pci, Call { fault: Some(fault), ..Call::default() });
        }
    }
    news.joins = Joins { of: links.keys().copied().collect(), counts: joins(&links, gpus) };
    Ok(news)
}

/// The temperature comes from the GPU itself: one that is lost cannot tell it, whatever the library remembers.
fn call(index: u32, device: &Device<'_>) -> Call {
    let uuid = device.uuid();
    let lost = device.temperature(TemperatureSensor::Gpu).err().and_then(fault);
    match uuid {
        Err(error) => Call { index: Some(index), fault: fault(error).or(lost), ..Call::default() },
        Ok(uuid) => Call {
            index: Some(index),
            uuid: parse::uuid(&uuid, "GPU-"),
            model: device.name().map(|name| plain(&name, 96)).unwrap_or_default(),
            fault: lost,
        },
    }
}

/// The slices of a GPU; nothing when the library fails to tell.
fn slices(device: &Device<'_>) -> Option<Vec<Mig>> {
    let cut = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let count = if cut { device.mig_device_count().ok()?.min(SLICES) } else { 0 };
    let mut slices = Vec::new();
    for at in 0..count {
        let slice = match device.mig_device_by_index(at) {
            Ok(slice) => slice,
            // A place without a slice.
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => continue,
            Err(_) => return None,
        };
        let uuid = parse::uuid(&slice.uuid().ok()?, "MIG-")?;
        slices.push(Mig { uuid, profile: profile(&slice.name().ok()?)? });
    }
    Some(slices)
}

/// Errors that are the GPU's and not the question's.
fn fault(error: NvmlError) -> Option<String> {
    match error {
        NvmlError::GpuLost => Some("it has fallen off the bus".to_owned()),
        NvmlError::ResetRequired => Some("it must be reset".to_owned()),
        _ => None,
    }
}

/// `NVIDIA H100 80GB HBM3 MIG 1g.10gb`: the last word.
fn profile(name: &str) -> Option<String> {
    let (_, profile) = name.rsplit_once("MIG ")?;
    Some(plain(profile, 32)).filter(|profile| !profile.is_empty())
}

fn address(
    info: Result<nvml_wrapper::struct_wrappers::device::PciInfo, NvmlError>,
) -> Option<PciAddress> {
    info.ok()?.bus_id.parse().ok()
}

/// How many NVLinks join each pair: those from one to the other, or those of both to switches, which join all.
fn joins(
    links: &BTreeMap<PciAddress, Vec<PciAddress>>,
    gpus: &[PciAddress],
) -> BTreeMap<(PciAddress, PciAddress), u8> {
    let count = |links: &Vec<PciAddress>, to: &dyn Fn(&PciAddress) -> bool| {
        u8::try_from(links.iter().filter(|far| to(far)).count()).unwrap_or(u8::MAX)
    };
    let mut joins = BTreeMap::new();
    for (a, of_a) in links {
        for (b, of_b) in links.range(*a..).skip(1) {
            let direct = count(of_a, &|far| far == b);
            let switch = |far: &PciAddress| !links.contains_key(far) && !gpus.contains(far);
            let switched = count(of_a, &switch).min(count(of_b, &switch));
            let all = direct.max(switched);
            if all > 0 {
                joins.insert((*a, *b), all);
            }
        }
    }
    joins
}

#[cfg(test)]
mod tests;
