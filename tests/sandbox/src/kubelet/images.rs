//! Images that no registry has.

/// Patterns of names of images; `*` stands for any text, also none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingImages(Vec<String>);

// === impl MissingImages ===

impl MissingImages {
    /// Whether one of the patterns is this image's.
    pub fn contains(&self, image: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, image))
    }
}

impl<T: Into<String>> FromIterator<T> for MissingImages {
    fn from_iter<I: IntoIterator<Item = T>>(patterns: I) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }
}

fn fits(pattern: &str, image: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == image };
    let Some(mut image) = image.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = image.find(part) else { return false };
        image = &image[at + part.len()..];
    }
    image.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_with_stars() {
        let missing: MissingImages =
            ["nginx:nonexistent-*", "*-bad-image", "a*b*c", "exact:1"].into_iter().collect();
        for (image, expected) in [
            ("nginx:nonexistent-image-9", true),
            ("nginx:role-bad-image", true),
            ("nginx:1.28", false),
            ("exact:1", true),
            ("exact:12", false),
            ("axbxc", true),
            ("abc", true),
            ("acb", false),
            ("", false),
        ] {
            assert_eq!(missing.contains(image), expected, "{image}");
        }
        assert!(!MissingImages::default().contains(""));
    }
}
