//! Texts of a card's files, and which GID to use. Pure.

use std::net::{IpAddr, Ipv6Addr};

use muster_proto::device::PortState;

/// How long a name or a word may be.
const WORD: usize = 64;

/// One entry of a port's table that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Index of the GID in the card's table.
    pub index: u32,
    /// Itself: an address in most cases.
    pub value: Ipv6Addr,
    /// RoCE v2: it travels in UDP and can be routed.
    pub v2: bool,
}

// === impl Gid ===

impl Gid {
    /// As the kernel writes it: eight groups of four digits.
    pub fn text(&self) -> String {
        self.value.segments().map(|part| format!("{part:04x}")).join(":")
    }

    /// The address in it; those of InfiniBand are none.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.value.to_ipv4_mapped() {
            _ if !self.v2 => None,
            Some(v4) => Some(v4.into()),
            None => Some(self.value.into()),
        }
    }
}

/// The GID that a job should use.
///
/// InfiniBand: the first. Ethernet: RoCE v2 with an IPv4 address, else with an IPv6 address that is not
/// link-local. The last of several: addresses that were added later are the administrator's.
pub fn choose<'a>(layer: &str, gids: &'a [Gid]) -> Option<&'a Gid> {
    if layer.trim() == "InfiniBand" {
        return gids.iter().find(|gid| gid.index == 0);
    }
    let v4 = |gid: &&Gid| gid.value.to_ipv4_mapped().is_some_and(|ip| !ip.is_unspecified());
    let v6 = |gid: &&Gid| {
        let value = gid.value;
        !(value.to_ipv4_mapped().is_some()
            || value.is_unicast_link_local()
            || value.is_multicast()
            || value.is_loopback())
    };
    let v2 = || gids.iter().filter(|gid| gid.v2);
    let last = |gid: &&Gid| gid.index;
    v2().filter(v4).max_by_key(last).or_else(|| v2().filter(v6).max_by_key(last))
}

/// `0000:0000:0000:0000:0000:ffff:0a28:0001`; all zero is an empty place.
pub fn gid(text: &str) -> Option<Ipv6Addr> {
    text.trim().parse().ok().filter(|value: &Ipv6Addr| !value.is_unspecified())
}

/// `RoCE v2`, not `IB/RoCE v1`.
pub fn is_v2(text: &str) -> bool {
    text.trim() == "RoCE v2"
}

/// `4: ACTIVE`. A port that is up but not active cannot be used.
pub fn state(text: &str) -> PortState {
    match text.trim().split(':').next().unwrap_or_default() {
        "4" => PortState::Up,
        "1" | "2" | "3" | "5" => PortState::Down,
        _ => PortState::Unknown,
    }
}

/// `400 Gb/sec (4X NDR)`: whole gigabits per second.
pub fn rate(text: &str) -> Option<u32> {
    let (number, _) = text.trim().split_once(" Gb/sec")?;
    let whole = number.split('.').next().unwrap_or_default();
    whole.parse().ok().filter(|rate| *rate > 0)
}

/// A name that can be part of a path: `mlx5_0`, `eth_rdma0`.
pub fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = (1..=WORD).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    (fits && !text.contains('/') && !text.starts_with('.')).then(|| text.to_owned())
}

/// A text that can be shown: without control characters, cut.
pub fn plain(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(WORD).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(gids: &[(u32, &str, &str)]) -> Vec<Gid> {
        let made = |(index, text, kind): &(u32, &str, &str)| {
            Some(Gid { index: *index, value: gid(text)?, v2: is_v2(kind) })
        };
        gids.iter().filter_map(made).collect()
    }

    #[test]
    fn the_last_routable_gid_is_used() {
        let local = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001";
        let v4 = "0000:0000:0000:0000:0000:ffff:0a28:0001";
        let v6 = "2001:0db8:0000:0000:0000:0000:0000:0007";
        let (one, two) = ("IB/RoCE v1", "RoCE v2");
        let empty = "0000:0000:0000:0000:0000:0000:0000:0000";
        for (layer, gids, expected) in [
            (
                "Ethernet",
                vec![(0, local, one), (1, local, two), (2, v4, one), (3, v4, two)],
                Some(3),
            ),
            ("Ethernet", vec![(1, v4, two), (5, v4, two), (6, v6, two)], Some(5)),
            ("Ethernet", vec![(1, local, two), (3, v6, two), (4, v6, one)], Some(3)),
            ("Ethernet", vec![(0, local, one), (1, local, two)], None),
            ("Ethernet", vec![(0, empty, two)], None),
            ("InfiniBand", vec![(0, local, one), (1, v4, two)], Some(0)),
            ("InfiniBand", vec![(1, v4, two)], None),
        ] {
            let gids = table(&gids);
            assert_eq!(choose(layer, &gids).map(|gid| gid.index), expected, "{layer} {gids:?}");
        }
        let gid = table(&[(3, v4, two)])[0];
        assert_eq!((gid.text().as_str(), gid.ip()), (v4, Some([10, 40, 0, 1].into())));
        assert_eq!(table(&[(0, v4, one)])[0].ip(), None);
    }

    #[test]
    fn words_of_the_kernel() {
        assert_eq!(state("4: ACTIVE\n"), PortState::Up);
        assert_eq!([state("1: DOWN"), state("2: INIT")], [PortState::Down; 2]);
        assert_eq!([state(""), state("ACTIVE"), state("44: X")], [PortState::Unknown; 3]);
        assert_eq!(rate("400 Gb/sec (4X NDR)"), Some(400));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some(2));
        assert_eq!([rate(""), rate("fast"), rate("-1 Gb/sec"), rate("0 Gb/sec")], [None; 4]);
        assert_eq!(
            [name("../x"), name(""), name("a b"), name(".."), name("a/b")],
            [const { None }; 5]
        );
    }

    proptest! {
        #[test]
        fn no_text_breaks_them(text in ".{0,80}", layer in "Ethernet|InfiniBand|.*", v2: bool) {
            let _ = (state(&text), rate(&text));
            prop_assert!(plain(&text).chars().count() <= WORD);
            prop_assert!(!plain(&text).contains(char::is_control));
            prop_assert!(name(&text).is_none_or(|name| !name.contains('/') && name.len() <= WORD));
            let gids: Vec<Gid> =
                gid(&text).into_iter().map(|value| Gid { index: 0, value, v2 }).collect();
            let _ = choose(&layer, &gids);
        }

        #[test]
        fn every_gid_is_written_as_it_was_read(bytes: [u8; 16], index: u32, v2: bool) {
            let made = Gid { index, value: bytes.into(), v2 };
            prop_assert_eq!(made.text().len(), 39);
            prop_assert_eq!(gid(&made.text()), Some(made.value).filter(|ip| !ip.is_unspecified()));
        }

        #[test]
        fn what_is_chosen_can_be_routed(all in proptest::collection::vec((0u32..300, any::<[u8; 16]>(), any::<bool>()), 0..20)) {
            let gids: Vec<Gid> = all.iter().map(|(index, value, v2)| Gid { index: *index, value: (*value).into(), v2: *v2 }).collect();
            if let Some(gid) = choose("Ethernet", &gids) {
                prop_assert!(gid.v2 && !gid.value.is_unicast_link_local());
            }
        }
    }
}
