//! A rank table of any size, of the form that super-pods need.

use std::fmt::Write;

/// A table of so many ranks, sixteen a server.
pub fn of(ranks: usize) -> String {
    let mut text = String::from("{\"version\":\"1.2\",\"status\":\"completed\",\"server_list\":[");
    for server in 0..ranks.div_ceil(16) {
        if server > 0 {
            text.push(',');
        }
        // Writing into a String cannot fail.
        let _written =
            write!(text, "{{\"server_id\":\"10.9.{}.{}\",\"device\":[", server / 250, server % 250);
        for (at, rank) in (server * 16..ranks.min(server * 16 + 16)).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _written = write!(
                text,
                "{comma}{{\"device_id\":\"{at}\",\"device_ip\":\"10.{}.{}.{}\",\"super_device_id\":\"{}\",\"rank_id\":\"{rank}\"}}",
                rank / 62_500,
                rank / 250 % 250,
                rank % 250,
                (server % 48) << 22 | at,
            );
        }
        text.push_str("]}");
    }
    let _written = write!(text, "],\"server_count\":\"{}\"}}", ranks.div_ceil(16));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_has_as_many_ranks_as_asked_for() {
        let table: serde_json::Value = serde_json::from_str(&super::of(100)).unwrap();
        let servers = table["server_list"].as_array().unwrap();
        let ranks: usize =
            servers.iter().map(|server| server["device"].as_array().unwrap().len()).sum();
        assert_eq!((servers.len(), ranks), (7, 100));
    }
}
