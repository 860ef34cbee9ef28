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
/// Tools number by physical id, by order, or by card. As many numbers as devices are in the devices' order. Fewer
/// (a device is not in the matrix) are physical ids if they are numbers of chips and all exist; otherwise it cannot
/// be told.
pub fn renumber(topo: &Topo, ids: &[u32], of_chips: bool) -> Option<BTreeMap<u32, u32>> {
    let numbers = || topo.numbers.iter().copied();
    if topo.numbers.len() == ids.len() {
        return Some(numbers().zip(ids.iter().copied()).collect());
    }
    let exist = numbers().all(|number| ids.contains(&number));
    (exist && of_chips).then(|| numbers().zip(numbers()).collect())
}

/// The matrix's pairs as links of devices.
pub fn from_matrix(topo: &Topo, numbers: &BTreeMap<u32, u32>) -> Vec<Link> {
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

#[cfg(test)]
mod tests {
    use muster_proto::device::Vendor;

    use super::*;

    fn devices(count: u32) -> Vec<Device> {
        let one = |id| Device::new(Vendor::Ascend, id, format!("/dev/davinci{id}"));
        (0..count).map(one).collect()
    }

    /// The sizes of the islands.
    fn sizes(links: &[Link]) -> Vec<usize> {
        let islands = islands(links);
        let count = islands.values().max().map_or(0, |most| most + 1);
        (0..count).map(|n| islands.values().filter(|island| **island == n).count()).collect()
    }

    #[test]
    fn a_generation_has_its_shape() {
        for (chip, count, links, islands) in [
            (Chip::Ascend910a, 8, 12, vec![4, 4]),
            (Chip::Ascend910a, 4, 6, vec![4]),
            (Chip::Ascend910a, 2, 0, vec![]),
            (Chip::Ascend910b, 8, 28, vec![8]),
            (Chip::Ascend910b, 16, 56, vec![8, 8]),
            (Chip::Ascend910b, 5, 0, vec![]),
            (Chip::AscendA3, 16, 120, vec![16]),
            (Chip::Ascend310p, 8, 0, vec![]),
            (Chip::Unknown, 8, 0, vec![]),
        ] {
            let known = known(chip, &devices(count));
            assert_eq!((known.len(), sizes(&known)), (links, islands), "{chip:?} {count}");
        }
    }

    #[test]
    fn islands_are_numbered_by_their_smallest_and_leave_the_lonely_out() {
        let link = |a, b, join| Link { a: End::Npu(a), b: End::Npu(b), join };
        let links = [
            link(5, 7, Join::Sio),
            link(1, 9, Join::Hccs),
            link(7, 8, Join::HccsSwitch),
            link(0, 1, Join::Sys),
            link(2, 3, Join::Pix),
        ];
        let islands: Vec<(u32, u32)> = islands(&links).into_iter().collect();
        assert_eq!(islands, [(1, 0), (5, 1), (7, 1), (8, 1), (9, 0)]);
    }

    #[test]
    fn a_matrix_of_cards_is_not_taken_for_one_of_chips() {
        let topo = |numbers: &[u32]| Topo { numbers: numbers.to_vec(), ..Topo::default() };
        let ids = [0, 1, 2, 3];
        assert_eq!(renumber(&topo(&[1, 2]), &ids, false), None);
        assert_eq!(renumber(&topo(&[1, 2]), &ids, true), Some(BTreeMap::from([(1, 1), (2, 2)])));
        assert_eq!(renumber(&topo(&[1, 7]), &ids, true), None);
        let in_order = BTreeMap::from([(4, 0), (5, 1), (6, 2), (7, 3)]);
        assert_eq!(renumber(&topo(&[4, 5, 6, 7]), &ids, false), Some(in_order));
    }
}
