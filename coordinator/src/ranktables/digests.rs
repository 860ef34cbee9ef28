//! What a table was made from, in one number. Pure.

use muster_proto::delivery::Digest;
use sha2::{Digest as _, Sha256};

use super::member::{Devices, Member};

/// Of the pods that share a table: who they are.
pub fn members(live: &[&Member]) -> Digest {
    let mut hasher = Sha256::new();
    // The members come by uid.
    for member in live {
        part(&mut hasher, &member.pod.uid);
    }
    Digest::of_hasher(hasher)
}

/// Of all that a table is made from, but its template: who they are, where they stand, what they hold. Their own
/// addresses come late, and count only where the template asks for them.
pub fn input(live: &[&Member], addresses: bool) -> Digest {
    let mut hasher = Sha256::new();
    for member in live {
        let pod = &member.pod;
        let post = pod.post();
        for text in [
            pod.uid.as_str(),
            &pod.name,
            if addresses { pod.host_ip.as_str() } else { "" },
            if addresses { pod.pod_ip.as_str() } else { "" },
            &post.role,
            &post.role_id,
            &format!("{} {} {:?}", post.role_index, post.entry, post.index),
            member.devices.as_ref().map_or("", Devices::text),
            member.marks.order.map_or("", muster_ranktable::Order::digest_word),
        ] {
            part(&mut hasher, text);
        }
    }
    Digest::of_hasher(hasher)
}

/// With its length, so that two parts are never taken for one.
fn part(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
