//! Turns the `.proto` files into Rust, without a protoc on the machine.

use std::error::Error;

const FILES: [&str; 3] = [
    "kubelet/podresources/v1/api.proto",
    "kubelet/deviceplugin/v1beta1/allocation.proto",
    "muster/v1/link.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let files = protox::compile(FILES, ["."])?;
    tonic_prost_build::configure()
        .btree_map(".")
        // A part of a table is a slice of what was received or packed, never a copy.
        .bytes(".muster.v1.BlobChunk.bytes")
        .compile_fds(files)?;
    Ok(())
}
