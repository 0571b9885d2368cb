//! Compiles Leno's own protobuf files, without `protoc`.

use std::error::Error;

const PROTO: &str = "proto/leno/identity/v1/identity.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure().build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
