//! `version.info` of the driver and `/etc/ascend_install.info`: lines of `Key=Value`.

/// The driver's version.
pub fn version(text: &str) -> Option<String> {
    value(text, "Version").map(|version| super::name(&version))
}

/// Where the driver is, if the file says so in a way that can be followed: `/usr/local/Ascend` gives
/// `/usr/local/Ascend/driver`.
pub fn driver(text: &str) -> Option<String> {
    let path = value(text, "Driver_Install_Path_Param")?;
    let path = path.trim_end_matches('/');
    let plain = path.starts_with('/')
        && path.len() <= 256
        && path.split('/').skip(1).all(|part| !part.is_empty() && part != "." && part != "..");
    plain.then(|| format!("{path}/driver"))
}

/// The value of a key, whatever the case of its letters.
fn value(text: &str, key: &str) -> Option<String> {
    super::lines(text).find_map(|line| {
        let (found, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (found.trim().eq_ignore_ascii_case(key) && !value.is_empty()).then(|| value.to_owned())
    })
}
