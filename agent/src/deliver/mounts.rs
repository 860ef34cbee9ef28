//! Whether what this process sees at a path is what the node has mounted there.
//!
//! A volume in memory is a file system that the kubelet mounts. An agent in a container sees it only if the kubelet's
//! directory was given to it with `mountPropagation: HostToContainer`; otherwise it sees the empty directory below, and a
//! table written there would reach nobody. The node's first process knows better.

use crate::host::Host;

/// The node's mounts, as its first process sees them.
const MOUNTS: &str = "/proc/1/mountinfo";

/// How much of them is read; a node with a thousand pods has less.
const LARGEST: usize = 8 * 1024 * 1024;

/// The device that the node has mounted at this path of it, if it is a mount and the node tells.
pub fn mounted(host: &Host, path: &str) -> Option<(u64, u64)> {
    find(&host.read_at_most(MOUNTS, LARGEST).ok()?, path)
}

/// The same from the text of `mountinfo`. Of several mounts on one path the last is seen.
pub fn find(mountinfo: &str, path: &str) -> Option<(u64, u64)> {
    let device = |line: &str| {
        let mut fields = line.split(' ').skip(2);
        let (device, _root, at) = (fields.next()?, fields.next()?, fields.next()?);
        if unescaped(at) != path {
            return None;
        }
        let (major, minor) = device.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    mountinfo.lines().rev().find_map(device)
}

/// Blanks and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        90 22 0:44 / /var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/r rw - tmpfs tmpfs rw\n\
        91 22 0:45 / /mnt/a\\040b rw - tmpfs tmpfs rw\n\
        92 22 0:46 / /mnt/a\\040b rw - tmpfs tmpfs rw\n";

    #[test]
    fn a_mount_is_found_by_its_path_and_the_last_one_counts() {
        let volume = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/r";
        assert_eq!(find(TEXT, volume), Some((0, 44)));
        assert_eq!(find(TEXT, "/mnt/a b"), Some((0, 46)));
        assert_eq!(find(TEXT, "/"), Some((254, 1)));
        assert_eq!(find(TEXT, "/mnt"), None);
        assert_eq!(find("", "/"), None);
    }

    proptest! {
        #[test]
        fn no_text_of_mounts_is_too_odd(text in "(?s).{0,200}", path in "(?s).{0,20}") {
            let _any = find(&text, &path);
            let _any = unescaped(&text);
        }
    }
}
