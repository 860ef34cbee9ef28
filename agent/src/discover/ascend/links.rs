//! How devices are joined: the tool's matrix, else what the generation is known to be; and the islands in it.
//!
//! ```text
//!   910A            910B                A3
//!   0─1   4─5       all of eight        0═1 ─┐
//!   │╳│   │╳│       (sixteen: two       2═3 ─┤ switch
//!   2─3   6─7        such meshes)       4═5 ─┘
//! ```

use std::collections::BTreeMap;

use muster_proto::device::{Chip, Device, End, Join, Link};

use super::parse::topo::Topo;

/// Which number of the matrix is which physical id.
///
/// Tools number by physical id, by order, or (two chips per card) by card. As many numbers as devices are in the
/// devices' order; fewer are physical ids when all of them exist and there are too many for cards, or as many
/// cards as devices. Otherwise it cannot be told.
pub fn renumber(topo: &Topo, ids: &[u32], cards: usize) -> Option<BTreeMap<u32, u32>> {
    let numbers = || topo.numbers.iter().copied();
    if topo.numbers.len() == ids.len() {
        return Some(numbers().zip(ids.iter().copied()).collect());
    }
    let exist = numbers().all(|number| ids.contains(&number));
    let of_chips = cards == ids.len() || topo.numbers.len() > cards;
    (exist && of_chips && cards > 0).then(|| numbers().zip(numbers()).collect())
}

/// The matrix's pairs as links of devices.
pub fn told(topo: &Topo, numbers: &BTreeMap<u32, u32>) -> Vec<Link> {
    let links = topo.joins.iter().filter_map(|((a, b), join)| {
        let (a, b) = (*numbers.get(a)?, *numbers.get(b)?);
        Some(Link { a: End::Npu(a.min(b)), b: End::Npu(a.max(b)), join: *join })
    });
    let mut links: Vec<Link> = links.collect();
    links.sort();
    links
}

/// The links that this generation has, when nobody has told. Nothing for servers of unknown shape.
pub fn known(chip: Chip, devices: &[Device]) -> Vec<Link> {
    let count = devices.len();
    let join = |a: &Device, b: &Device| match chip {
        Chip::Ascend910a if count == 4 || count == 8 => {
            (a.id / 4 == b.id / 4).then_some(Join::Hccs)
        }
        Chip::Ascend910b if count == 8 || count == 16 => {
            (a.id / 8 == b.id / 8).then_some(Join::Hccs)
        }
        Chip::AscendA3 => {
            let npu = |device: &Device| device.card.map_or(device.id / 2, |(npu, _)| npu);
            Some(if npu(a) == npu(b) { Join::Sio } else { Join::HccsSwitch })
        }
        _ => None,
    };
    let mut links = Vec::new();
    for (at, a) in devices.iter().enumerate() {
        let others = devices.iter().skip(at + 1);
        links.extend(
            others.filter_map(|b| Some(Link { a: a.end(), b: b.end(), join: join(a, b)? })),
        );
    }
    links
}

/// The groups that are joined directly, numbered by their smallest member. Who is joined to nobody is in none.
pub fn islands(links: &[Link]) -> BTreeMap<u32, u32> {
    let direct = links.iter().filter_map(|link| match (link.a, link.b, link.join) {
        (End::Npu(a), End::Npu(b), Join::Sio | Join::Hccs | Join::HccsSwitch) => Some((a, b)),
        _ => None,
    });
    let direct: Vec<(u32, u32)> = direct.collect();
    let ends = direct.iter().flat_map(|(a, b)| [(*a, *a), (*b, *b)]);
    let mut group: BTreeMap<u32, u32> = ends.collect();
    // Each round carries the smallest member one link further; it ends when nothing moves.
    loop {
        let mut moved = false;
        for (a, b) in &direct {
            let least =
                group.get(a).copied().unwrap_or(*a).min(group.get(b).copied().unwrap_or(*b));
            for end in [a, b] {
                moved |= group.insert(*end, least) != Some(least);
            }
        }
        if !moved {
            break;
        }
    }
    let mut least: Vec<u32> = group.values().copied().collect();
    least.sort_unstable();
    least.dedup();
    let number = |root: u32| (0..).zip(&least).find(|(_, found)| **found == root).map(|(n, _)| n);
    group.iter().filter_map(|(id, root)| Some((*id, number(*root)?))).collect()
}
