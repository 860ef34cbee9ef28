//! Turns the `.proto` files into Rust, without a protoc on the machine.

use std::error::Error;

const FILES: [&str; 2] =
    ["kubelet/podresources/v1/api.proto", "kubelet/deviceplugin/v1beta1/allocation.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let files = protox::compile(FILES, ["."])?;
    tonic_prost_build::configure().btree_map(".").compile_fds(files)?;
    Ok(())
}
