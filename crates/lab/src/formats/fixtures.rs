//! Files that Fortio and ghz wrote in real runs, and simulated results.
//!
//! Fortio 1.68.2 and ghz 0.93.0 wrote the files. Both tools called `leno echo`, with two exceptions. For
//! `fortio-grpc.json`, the server was `fortio server`, which was killed after one second. For `ghz-refused.json`, no
//! server listened.
//!
//! ```text
//! fortio load -qps 200 -t 1s -c 2 -labels "echo over http" -p 50,75,90,99,99.9 -json fortio-http.json http://ADDRESS/
//! fortio load -grpc -allow-initial-errors -qps 50 -t 2s -c 2 -json fortio-grpc.json ADDRESS
//! ghz --insecure --call leno.echo.v1.Echo/Unary --rps 200 -n 40 --name echo --format json -o ghz.json ADDRESS
//! ghz --insecure --proto echo.proto --call leno.echo.v1.Echo/Unary -n 3 -c 1 --format json -o ghz-refused.json 127.0.0.1:1
//! ```

use serde_json::Value;

use super::measured::{Form, Measured};

pub(crate) const FORTIO_HTTP: &str = include_str!("fixtures/fortio-http.json");
/// A result of Fortio for gRPC, in which half of the calls failed.
pub(crate) const FORTIO_GRPC: &str = include_str!("fixtures/fortio-grpc.json");
pub(crate) const GHZ: &str = include_str!("fixtures/ghz.json");
/// A result of ghz, in which no server answered.
pub(crate) const GHZ_REFUSED: &str = include_str!("fixtures/ghz-refused.json");

/// Changes the value at a JSON pointer of a file.
pub(crate) fn changed(file: &str, pointer: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(file).expect("the file is JSON");
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("the file has {pointer}")) = value;
    document.to_string()
}

/// A run with this median. Its other latencies are multiples of the median.
pub(crate) fn measured(label: &str, p50_ms: f64) -> Measured {
    Measured {
        form: Form::Fortio,
        label: label.to_owned(),
        p50_ms: Some(p50_ms),
        p90_ms: Some(p50_ms * 2.0),
        p99_ms: Some(p50_ms * 3.0),
        p999_ms: Some(p50_ms * 4.0),
        mean_ms: Some(p50_ms * 1.5),
        rate_per_s: Some(500.0),
        errors_percent: Some(0.0),
    }
}
