//! Addresses of devices: readable, everybody's own, as many for each.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Report, Spot};

/// The addresses that have been seen.
#[derive(Default)]
pub(super) struct Addresses {
    seen: HashMap<String, Spot>,
    /// How many addresses the first device has that has any.
    count: Option<usize>,
}

// === impl Addresses ===

impl Addresses {
    /// The addresses of one device, with commas between them. Nothing is fine here.
    pub(super) fn note(&mut self, text: &str, spot: &Spot, report: &mut Report) {
        if text.is_empty() {
            return;
        }
        let mut count = 0;
        for part in text.split(',') {
            count += 1;
            let parsed = part.parse::<IpAddr>();
            match parsed {
                Err(_) => report.error(
                    "device_ip_invalid",
                    spot.clone(),
                    format!("device_ip {part:?} is no address"),
                    "look at the device's address with hccn_tool -i N -ip -g",
                ),
                Ok(address) if address.is_loopback() || address.is_unspecified() => report.warning(
                    "device_ip_placeholder",
                    spot.clone(),
                    format!("device_ip {part} reaches no other server"),
                    "set the device's address with hccn_tool, or leave it out if there is one server",
                ),
                Ok(_) => {}
            }
            let same = parsed.map_or_else(|_| part.to_owned(), |address| address.to_string());
            if let Some(first) = self.seen.insert(same, spot.clone()) {
                report.error(
                    "device_ip_duplicate",
                    spot.clone(),
                    format!("device_ip {part} is also that of {first}"),
                    "give every port an address of its own",
                );
            }
        }
        if *self.count.get_or_insert(count) != count {
            report.error(
                "device_ip_count_mismatch",
                spot.clone(),
                format!(
                    "the device has {count} addresses, others have {}",
                    self.count.unwrap_or_default()
                ),
                "give all devices the same number of addresses",
            );
        }
    }
}
