//! Kinds as clients want them: one macro says what a type is called in the API, one makes a kind whose spec stays JSON.

use serde_json::Value;

/// An object whose spec is not read: one that cannot be read must not hide the others of its kind.
pub trait RawObject {
    /// All of it, with API version and kind.
    fn object(&self) -> Value;
}

/// Makes a type a kind of the API: type, scope, kind, group, version, plural, and where its metadata is if that is not
/// the field `metadata`.
#[macro_export]
macro_rules! kind {
    ($type:ty, $scope:ident, $kind:literal, $group:expr, $version:literal, $plural:literal) => {
        $crate::kind!($type, $scope, $kind, $group, $version, $plural, metadata);
    };
    ($type:ty, $scope:ident, $kind:literal, $group:expr, $version:literal, $plural:literal, $($metadata:tt)+) => {
        impl ::kube::Resource for $type {
            type DynamicType = ();
            type Scope = ::kube::core::$scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &::kube::core::ObjectMeta {
                &self.$($metadata)+
            }

            fn meta_mut(&mut self) -> &mut ::kube::core::ObjectMeta {
                &mut self.$($metadata)+
            }
        }
    };
}

/// Makes a kind of which only the metadata is read; all else stays JSON.
#[macro_export]
macro_rules! raw_kind {
    ($(#[$doc:meta])* $name:ident, $scope:ident, $kind:literal, $group:expr, $version:literal, $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $name {
            /// Name, labels, annotations.
            #[serde(default)]
            pub metadata: ::kube::core::ObjectMeta,
            /// The rest.
            #[serde(flatten)]
            pub rest: ::serde_json::Map<String, ::serde_json::Value>,
        }

        $crate::kind!($name, $scope, $kind, $group, $version, $plural);

        impl $crate::kind::RawObject for $name {
            fn object(&self) -> ::serde_json::Value {
                let mut all = self.rest.clone();
                all.insert("apiVersion".to_owned(), [$group, $version].join("/").into());
                all.insert("kind".to_owned(), $kind.into());
                let metadata = ::serde_json::to_value(&self.metadata).unwrap_or_default();
                all.insert("metadata".to_owned(), metadata);
                ::serde_json::Value::Object(all)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use serde_json::json;

    use super::RawObject as _;

    crate::raw_kind!(
        /// A kind for the test.
        Probe, NamespaceResourceScope, "Probe", "example.com", "v1", "probes"
    );

    #[test]
    fn a_raw_kind_passes_on_what_it_does_not_know() {
        let given = json!({"apiVersion": "example.com/v1", "kind": "Probe", "metadata": {"name": "a"},
            "spec": {"what": [1, {"ever": null}]}, "status": {"phase": 7}});
        let probe: Probe = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(probe.meta().name.as_deref(), Some("a"));
        assert_eq!(probe.object(), given);
        assert_eq!(Probe::url_path(&(), Some("n")), "/apis/example.com/v1/namespaces/n/probes");
    }
}
