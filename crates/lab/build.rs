//! Compiles the protobuf files of the echo server and of Istio's certificate service, without needing `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const ECHO: &str = "proto/leno/echo/v1/echo.proto";
const CERTIFICATES: &str = "proto/istio/v1/auth/certificates.proto";

fn main() -> Result<(), Box<dyn Error>> {
    for proto in [ECHO, CERTIFICATES] {
        println!("cargo::rerun-if-changed={proto}");
    }
    let descriptors = protox::compile([ECHO], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The echo server's reflection serves these descriptors, so that grpcurl needs no .proto file.
    fs::write(out.join("echo_descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    tonic_prost_build::configure().build_client(false).compile_fds(protox::compile([CERTIFICATES], ["proto"])?)?;
    Ok(())
}
