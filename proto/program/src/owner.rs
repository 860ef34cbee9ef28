//! Whose program holds the other end of a connection from this machine, as Linux says it in `/proc/net/tcp`.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The connections of this network namespace.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The user whose socket is at `caller` and connected to `server`. None if there is no such socket here.
pub fn of(caller: SocketAddr, server: SocketAddr) -> Option<u32> {
    TABLES.iter().find_map(|table| {
        // Without the table nobody is known.
        find(&std::fs::read_to_string(table).ok()?, caller, server)
    })
}

/// The same in a table that was read. Its lines are: number, own address, the other's, state, queues, timer, retries, user, …
fn find(table: &str, caller: SocketAddr, server: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, other) = (words.next()?, words.next()?);
        let matches =
            written(caller).any(|text| text == own) && written(server).any(|text| text == other);
        if matches { words.nth(4)?.parse().ok() } else { None }
    })
}

/// An address as the kernel writes it: words of four bytes in the machine's order. One of IPv4 may be in a socket of IPv6.
fn written(address: SocketAddr) -> impl Iterator<Item = String> {
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).filter_map(|word| word.try_into().ok());
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect()
    };
    let forms = match address.ip().to_canonical() {
        IpAddr::V4(ip) => [Some(words(&ip.octets())), Some(words(&ip.to_ipv6_mapped().octets()))],
        IpAddr::V6(ip) => [Some(words(&ip.octets())), None],
    };
    forms.into_iter().flatten().map(move |mut text| {
        // Writing into a String cannot fail.
        let _written = write!(text, ":{:04X}", address.port());
        text
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_owner_of_a_connection_from_this_machine_is_this_user() {
        let own = std::fs::metadata("/proc/self").unwrap().uid();
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let server = listener.local_addr().unwrap();
            let stream = TcpStream::connect(server).unwrap();
            assert_eq!(of(stream.local_addr().unwrap(), server), Some(own), "{host}");
            assert_eq!(of(server, server), None, "nobody calls from there");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_user_is_read_from_the_line_of_both_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:25A9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:25A9 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:C350 0100007F:25A9 01 00000000:00000000 00:00000000 00000000  1001        0 3
   3: cut off";
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(find(table, address(50_000), address(9641)), Some(1001));
        assert_eq!(find(table, address(50_001), address(9641)), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_caller_of_ipv4_may_have_a_socket_of_ipv6() {
        let table = "head
   0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:25A9 01 0:0 00:0 0  1001 0 3";
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(find(table, address(50_000), address(9641)), Some(1001));
    }
}
