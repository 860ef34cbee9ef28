//! Images: blanks in them are refused, all else is left to the kubelet.

use serde_json::Value;

use crate::api::PodTemplate;
use muster_kube::FieldError;

/// What is wrong with the images of a template's containers; `at` is where their list is.
pub(crate) fn check(at: &str, template: &PodTemplate) -> Vec<FieldError> {
    let containers = template.spec.get("containers").and_then(Value::as_array);
    let images = containers.into_iter().flatten().map(|container| &container["image"]);
    let wrong = images.enumerate().filter_map(|(index, image)| {
        let image = image.as_str()?;
        let why = why(image)?;
        let why = format!("invalid container image reference: {why}");
        let error = FieldError::invalid(format!("{at}[{index}].image"), image, why);
        Some(error.remedy("write the image without blanks, registry/name:tag"))
    });
    wrong.collect()
}

/// An empty image is somebody else's affair.
fn why(image: &str) -> Option<&'static str> {
    match image {
        "" => None,
        blank if blank.trim().is_empty() => Some("image cannot be empty or whitespace only"),
        image if image.contains(' ') => Some("image cannot contain spaces"),
        _ => None,
    }
}
