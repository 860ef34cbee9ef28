//! Every agreement between Muster's programs, and with the kubelet.
//!
//! This crate holds messages, services and the values in them, and decides nothing; it depends on nothing of ours.
//!
//! ```text
//!   kubelet ──unix socket──▶ podresources   which pod holds which device
//!   kubelet ──checkpoint───▶ deviceplugin   what the plugin gave to a container
//!   agent   ──pod object───▶ annotation     what a pod holds, for whoever builds rank tables
//!   agent   ◀──stream──────▶ link           device, pod, delivery: what the two sides tell each other
//! ```
//!
//! Clients are made with `FooClient::new(channel)`: build the channel with
//! `tonic::transport::Endpoint`, where time limits and keep-alive are visible.

pub use prost::Message;

pub mod annotation;
pub mod delivery;
pub mod device;
pub mod link;
pub mod pod;

/// The kubelet's pod-resources API, `v1.PodResourcesLister`.
pub mod podresources {
    /// Version 1, the only one that is served by every supported kubelet.
    #[allow(missing_docs, reason = "generated")]
    pub mod v1 {
        tonic::include_proto!("v1");
    }

    /// Where the kubelet listens, below the root of the node.
    pub const SOCKET: &str = "var/lib/kubelet/pod-resources/kubelet.sock";
}

/// The part of the device-plugin API that the kubelet keeps in its checkpoint.
pub mod deviceplugin {
    /// Version v1beta1, the only one there is.
    #[allow(missing_docs, reason = "generated")]
    pub mod v1beta1 {
        tonic::include_proto!("v1beta1");
    }

    /// The file in which the kubelet remembers its allocations, below the root of the node.
    pub const CHECKPOINT: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
}

#[cfg(test)]
mod tests {
    use super::Message;
    use super::deviceplugin::v1beta1::ContainerAllocateResponse;
    use super::podresources::v1::{
        ClaimResource, ContainerDevices, ContainerMemory, ContainerResources, DynamicResource,
        NumaNode, PodResources, TopologyInfo,
    };

    /// The bytes below were written by hand from the numbers of the kubelet's own API.
    #[test]
    fn messages_have_the_numbers_of_the_kubelets_wire() {
        let topology = Some(TopologyInfo { nodes: vec![NumaNode { id: 6 }] });
        let pod = PodResources {
            name: "p".into(),
            namespace: "n".into(),
            containers: vec![ContainerResources {
                name: "c".into(),
                devices: vec![ContainerDevices {
                    resource_name: "r".into(),
                    device_ids: vec!["d".into()],
                    topology,
                }],
                cpu_ids: vec![3],
                memory: vec![ContainerMemory { memory_type: "m".into(), size: 9, topology: None }],
                dynamic_resources: vec![DynamicResource {
                    claim_name: "x".into(),
                    claim_namespace: "y".into(),
                    claim_resources: vec![ClaimResource {
                        cdi_devices: vec![],
                        driver_name: "a".into(),
                        pool_name: "b".into(),
                        device_name: "e".into(),
                    }],
                }],
            }],
        };
        let wire = "\x0a\x01p\x12\x01n\x1a\x2e\
                    \x0a\x01c\x12\x0c\x0a\x01r\x12\x01d\x1a\x04\x0a\x02\x08\x06\
                    \x1a\x01\x03\x22\x05\x0a\x01m\x10\x09\
                    \x2a\x11\x12\x01x\x1a\x01y\x22\x09\x12\x01a\x1a\x01b\x22\x01e";
        assert_eq!(pod.encode_to_vec(), wire.as_bytes());
    }

    #[test]
    fn an_allocation_is_read_from_the_bytes_of_a_checkpoint() {
        let wire = b"\x0a\x06\x0a\x01K\x12\x01V\x1a\x0d\x0a\x04/d/a\x12\x02/d\x1a\x01r";
        let read = ContainerAllocateResponse::decode(&wire[..]).unwrap();
        assert_eq!(read.envs.get("K").map(String::as_str), Some("V"));
        assert_eq!(read.devices[0].container_path, "/d/a");
        assert_eq!(read.devices[0].host_path, "/d");
        assert_eq!(read.encode_to_vec(), wire);
    }
}
