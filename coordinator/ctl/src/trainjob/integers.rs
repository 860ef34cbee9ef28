//! Whole numbers, as the API server counts them: `2.0` is one, `1.5` and what needs more bits than the field has are none.

use serde_json::{Number, Value as Json};

/// Beyond this a float does not say which whole number it is.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes whole numbers without a point, as YAML is turned into JSON.
pub(super) fn tidy(value: &mut Json) {
    match value {
        Json::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            if let Some(whole) = float.filter(|it| it.fract() == 0.0 && it.abs() < EXACT) {
                *number = Number::from(whole as i64);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(tidy),
        Json::Object(fields) => fields.values_mut().for_each(tidy),
        _ => {}
    }
}

/// What is said of numbers that do not fit their field, beside what the schema says.
pub(super) fn misfits(schema: &Json, value: &Json) -> Vec<String> {
    let mut found = Vec::new();
    collect(schema, value, String::new(), &mut found);
    found
}

fn collect(schema: &Json, value: &Json, at: String, found: &mut Vec<String>) {
    match value {
        Json::Object(fields) => {
            for (key, field) in fields {
                let node = schema["properties"].get(key);
                let node = node.or_else(|| Some(&schema["additionalProperties"]));
                let Some(node) = node.filter(|node| node.is_object()) else { continue };
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                collect(node, field, at, found);
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(&schema["items"], item, format!("{at}[{index}]"), found);
            }
        }
        Json::Number(number) => {
            let either = schema["x-kubernetes-int-or-string"] == true;
            if schema["type"] != "integer" && !either {
                return;
            }
            let format = schema["format"].as_str().filter(|_| !either);
            let whole = number.as_i64();
            let fits = match format {
                Some("int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
                _ => whole.is_some(),
            };
            if !fits {
                let how = match format {
                    Some(format) => format!("with format {format}"),
                    None => "(default format)".to_owned(),
                };
                found.push(format!("Checked value must be of type integer {how} in {at}"));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_have_no_point_and_others_stay() {
        let mut value = json!({"a": 2.0, "b": [1.5, -3.0], "c": "2.0", "d": 7});
        tidy(&mut value);
        assert_eq!(value, json!({"a": 2, "b": [1.5, -3], "c": "2.0", "d": 7}));
    }

    #[test]
    fn numbers_that_do_not_fit_are_named_with_their_place() {
        let schema = json!({"properties": {
            "small": {"type": "integer", "format": "int32"},
            "large": {"type": "integer", "format": "int64"},
            "list": {"items": {"type": "integer", "format": "int32"}},
            "limits": {"additionalProperties": {"x-kubernetes-int-or-string": true}},
        }});
        let value = json!({"small": 3_000_000_000_u32, "large": 3_000_000_000_u32, "list": [1, 0.5],
            "limits": {"cpu": 0.5, "memory": 2}, "other": 0.5});
        let mut found = misfits(&schema, &value);
        found.sort();
        assert_eq!(
            found,
            [
                "Checked value must be of type integer (default format) in limits.cpu",
                "Checked value must be of type integer with format int32 in list[1]",
                "Checked value must be of type integer with format int32 in small",
            ]
        );
    }
}
