//! What drivers, tools and the kernel say about hardware.

use std::fmt::Write as _;
use std::net::IpAddr;

use muster_agent::discover::ascend::parse::topo::Topo;
use muster_agent::discover::ascend::parse::{
    MOST, WORD, conf, hccn, info, install, is_reachable, mapping, spod, topo,
};
use muster_agent::discover::net::parse as net_parse;
use muster_agent::discover::net::{ServerIdSource, server_id};
use muster_agent::discover::nvidia::parse as smi;
use muster_agent::discover::pci::parse as pci;
use muster_agent::discover::rdma::parse as rdma;
use muster_proto::device::{HostAddress, Join, PortState};

use super::{ascending, shown};

/// Ascend: every text is given to every parser, as if a tool had answered another question.
pub fn ascend(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let id = |id: u32| (id as usize) < MOST;
    let info = info::info(text);
    for row in info.iter().flatten() {
        assert!(id(row.npu) && id(row.chip) && row.phy.is_none_or(id) && shown(&row.name, WORD));
    }
    let mut chips: Vec<_> = info.iter().flatten().map(|row| (row.npu, row.chip)).collect();
    chips.sort_unstable();
    assert!(ascending(&chips) && chips.len() <= MOST, "a chip twice, or too many");
    let mapping = mapping::mapping(text);
    for row in mapping.iter().flatten() {
        assert!(id(row.npu) && id(row.chip) && row.logic.is_none_or(id) && row.phy.is_none_or(id));
    }
    let mut chips: Vec<_> = mapping.iter().flatten().map(|row| (row.npu, row.chip)).collect();
    chips.sort_unstable();
    assert!(ascending(&chips) && chips.len() <= MOST, "a chip twice, or too many");
    let listing = mapping::listing(text);
    assert!(listing.len() <= MOST && listing.iter().all(|(npu, count)| id(*npu) && id(*count)));

    let topo = topo::topo(text);
    if let Some(topo) = &topo {
        let known = |number: &u32| topo.numbers.binary_search(number).is_ok();
        assert!(ascending(&topo.numbers) && topo.numbers.len() <= 128);
        assert!(topo.joins.keys().all(|(a, b)| a < b && known(a) && known(b)));
        assert!(topo.cpus.iter().all(|(id, cpus)| known(id) && shown(cpus, 256)));
        assert_eq!(topo::topo(&matrix(topo)).as_ref(), Some(topo), "printed and read again");
    }
    let conf = conf::conf(text);
    let mut printed = String::new();
    for (number, ip) in &conf.addresses {
        assert!(id(*number) && ip.as_ref().is_none_or(is_reachable));
        let _ =
            writeln!(printed, "address_{number}={}", ip.map_or("none".into(), |ip| ip.to_string()));
    }
    assert_eq!(conf::conf(&printed), conf, "printed and read again");

    let place = spod::spod(text);
    let numbers = place.map(|it| [it.sdid, it.size, it.id, it.server]);
    assert!(!numbers.into_iter().flatten().flatten().any(|number| number == u32::MAX));
    let ip = hccn::ip(text);
    assert!(ip.flatten().as_ref().is_none_or(is_reachable));
    let lldp = hccn::lldp(text);
    for word in lldp.iter().flat_map(|it| [&it.switch, &it.port]) {
        assert!(!word.is_empty() && shown(word, WORD));
    }
    let topics = [
        hccn::link(text).is_some(),
        hccn::net_health(text).is_some(),
        hccn::speed(text).is_some(),
        ip.is_some_and(|ip| ip.is_some()),
        lldp.is_some(),
    ];
    let version = install::version(text);
    assert!(version.as_ref().is_none_or(|version| shown(version, WORD)));
    let driver = install::driver(text);
    if let Some(path) = &driver {
        assert!(path.starts_with('/') && path.ends_with("/driver") && path.len() <= 256 + 7);
        assert!(!path.contains("//") && !path.split('/').any(|part| part == ".." || part == "."));
        assert!(!path.contains(char::is_control));
    }
    info.is_some_and(|rows| !rows.is_empty())
        || mapping.is_some_and(|rows| !rows.is_empty())
        || !(listing.is_empty() && conf.addresses.is_empty())
        || [topo.is_some(), place.is_some(), version.is_some(), driver.is_some()].contains(&true)
        || topics.contains(&true)
}

/// The matrix as the tool would write it.
fn matrix(topo: &Topo) -> String {
    let mut out: String = topo.numbers.iter().map(|number| format!("\tNPU{number}")).collect();
    out.push_str("\tCPU Affinity\n");
    for row in &topo.numbers {
        let _ = write!(out, "NPU{row}");
        for column in &topo.numbers {
            let pair = (*row.min(column), *row.max(column));
            let join = topo.joins.get(&pair).copied().unwrap_or(Join::Na);
            let _ = if row == column { write!(out, "\tX") } else { write!(out, "\t{join}") };
        }
        let _ = writeln!(out, "\t{}", topo.cpus.get(row).map_or("", |cpus| cpus));
    }
    out
}

/// NVIDIA: the driver's files and `nvidia-smi`.
pub fn nvidia(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let information = smi::information(text);
    assert!(shown(&information.model, 96) && information.minor.is_none_or(|it| it < smi::MOST));
    let uuid = |uuid: &String| uuid.is_ascii() && shown(uuid, 84);
    assert!(information.uuid.as_ref().is_none_or(uuid));
    let (rows, other) = smi::rows(text);
    assert!(rows.len() <= smi::MOST as usize && rows.len() + other <= text.lines().count());
    let mut printed = String::new();
    for row in &rows {
        assert!(row.index < smi::MOST && shown(&row.model, 96));
        assert!(row.uuid.as_ref().is_none_or(uuid));
        let id = row.uuid.as_deref().unwrap_or("N/A");
        let fabric = row.fabric.as_ref();
        let fabric = fabric.map(|it| format!(", {}, {}", it.cluster_uuid, it.clique_id));
        let fabric = fabric.unwrap_or_default();
        let _ = writeln!(printed, "{}, {id}, {}, {}{fabric}", row.index, row.pci, row.model);
    }
    assert_eq!(smi::rows(&printed), (rows.clone(), 0), "printed and read again");
    let slices = smi::slices(text);
    for (gpu, slices) in &slices {
        assert!(*gpu < smi::MOST && slices.len() <= 64);
        assert!(slices.iter().all(|slice| uuid(&slice.uuid) && shown(&slice.profile, 32)));
    }
    let topology = smi::topology(text);
    assert!(topology.gpus.iter().all(|gpu| *gpu < smi::MOST));
    assert!(topology.joins.iter().all(|((a, b), links)| a < b && *b < smi::MOST && *links > 0));
    let version = smi::version(text);
    assert!(version.as_ref().is_none_or(|version| version.is_ascii() && shown(version, 32)));
    let named = information != smi::Information::default();
    named
        || !rows.is_empty()
        || !slices.is_empty()
        || !topology.joins.is_empty()
        || version.is_some()
}

/// Files of RDMA cards and PCI functions: each line is one file's text.
pub fn sysfs(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let mut gids = Vec::new();
    let mut found = false;
    for (index, line) in (0..).zip(text.lines()) {
        if let Some(value) = rdma::gid(line) {
            let gid = rdma::Gid { index, value, v2: index % 2 == 1 };
            assert_eq!(rdma::gid(&gid.text()), Some(value), "printed and read again");
            assert!(gid.ip().is_none() || gid.v2);
            gids.push(gid);
        }
        let rate = rdma::rate(line);
        assert!(rate != Some(0) && shown(&rdma::plain(line), 64));
        if let Some(name) = rdma::name(line) {
            assert!(shown(&name, 64) && !name.contains('/') && name != ".." && name != ".");
        }
        let (id, class) = (pci::id(line), pci::class(line));
        assert!(class.as_ref().is_ok_and(|class| *class <= 0xff_ffff) || class.is_err());
        let cpus = pci::cpus(line);
        assert!(cpus.as_ref().is_none_or(|cpus| cpus.is_ascii() && shown(cpus, 1024)));
        found |= rate.is_some() || id.is_ok() || class.is_ok() || pci::numa(line).is_some();
        found |= cpus.is_some() || rdma::is_v2(line) || rdma::state(line) != PortState::Unknown;
    }
    let routed = rdma::choose("Ethernet", &gids);
    assert!(routed.is_none_or(|gid| gid.v2 && !gid.value.is_unicast_link_local()));
    let first = rdma::choose("InfiniBand", &gids);
    assert!(first.is_none_or(|gid| gid.index == 0));
    found || !gids.is_empty()
}

/// The kernel's network files, and what `--server-id` takes.
pub fn net(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let (local, routes, v6) =
        (net_parse::local(text), net_parse::routes(text), net_parse::inet6(text));
    let name = |name: &str| (1..=15).contains(&name.len()) && shown(name, 15);
    assert!(routes.iter().all(|route| name(&route.interface) && route.mask != 0));
    assert!(v6.iter().all(|one| name(&one.interface) && one.ip.is_ipv6()));
    let named = |ip| net_parse::interface(&routes, ip).to_owned();
    let v4 = local.iter().map(|ip| HostAddress { interface: named(*ip), ip: IpAddr::V4(*ip) });
    let addresses: Vec<HostAddress> = v4.chain(v6).collect();
    let mut found = !(addresses.is_empty() && routes.is_empty());
    for line in text.lines().take(64) {
        let Ok(source) = line.parse::<ServerIdSource>() else { continue };
        found = true;
        assert_eq!(source.to_string().parse(), Ok(source.clone()), "printed and read again");
        match (&source, server_id(&source, &addresses, None)) {
            (ServerIdSource::Address(ip), chosen) => assert_eq!(chosen, Ok(*ip)),
            (_, Ok(ip)) => assert!(addresses.iter().any(|one| one.ip == ip)),
            (_, Err(error)) => {
                assert!(!error.reason().is_empty() && error.to_string().len() < 2048)
            }
        }
    }
    found
}
