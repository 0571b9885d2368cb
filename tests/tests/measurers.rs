//! Compares the lab with Fortio and ghz: all three measure the same load of the same server. Also checks that Fortio
//! can show the lab's results.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use leno_testing::skipped;
use leno_tests::admin;
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{free_address, wait_for};
use serde_json::Value;

/// Longest time for a program. Each program runs for some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Calls per second: few enough for a busy machine.
const RATE: &str = "500";
/// The server's delay of each answer, in ms. It is the largest part of every latency, so the test knows what the
/// measured percentiles must be.
const DELAY_MS: &str = "10";
/// Allowed range of the median latency, in ms. For half of the calls, timers and a busy machine may add several times
/// [`DELAY_MS`].
const P50_MS: std::ops::Range<f64> = 10.0..50.0;
/// Allowed range of the measured rate: 10 % below to 5 % above [`RATE`]. The rate may be lower because a busy machine
/// sends late, and because the last calls of a run are answered after its end.
const RATE_PER_S: std::ops::Range<f64> = 450.0..525.0;

fn has_fortio() -> bool {
    let is_there = programs::program("fortio").is_file();
    if !is_there {
        skipped("there is no fortio; ./test install builds it");
    }
    is_there
}

/// Starts `leno echo`. Returns its addresses for gRPC and for HTTP/1.1.
fn echo() -> (Server, SocketAddr, SocketAddr) {
    let (grpc, http1) = (free_address(), free_address());
    let addresses = [grpc.to_string(), http1.to_string()];
    let arguments = ["echo", "--delay-ms", DELAY_MS, "--listen", &addresses[0], "--http1", &addresses[1]];
    let server = Server::start("leno", &arguments);
    for address in [grpc, http1] {
        wait_for("leno echo listens", Duration::from_secs(20), || TcpStream::connect(address).ok());
    }
    (server, grpc, http1)
}

/// Runs `leno lab run` for the direct target.
fn lab(protocol: &str, more: &[&str], out: &Path) -> String {
    let out = out.display().to_string();
    let what =
        ["lab", "run", "slow-pod", "--targets", "direct", "--skew-ms", "0", "--work-ms", DELAY_MS, "--rate", RATE];
    let how = ["--protocol", protocol, "--warm-up-s", "1", "--repeat", "1", "--out", &out];
    programs::run_well("leno", &[&what[..], &how[..], more].concat(), PATIENCE);
    out
}

fn figure(side: &Value, name: &str) -> f64 {
    side["figures"][name]["mean"].as_f64().unwrap_or_else(|| panic!("no {name}: {side}"))
}

#[test]
fn the_lab_fortio_and_ghz_measure_the_same_at_the_same_rate() {
    if !has_fortio() {
        return;
    }
    let dir = tempfile::tempdir().expect("a writable temporary directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (_server, grpc, http1) = echo();
    let (ghz, at) = (file("ghz.json"), grpc.to_string());
    let what = ["--insecure", "--call", "leno.echo.v1.Echo/Unary", "--rps", RATE, "-n", "2500"];
    programs::run_well("ghz", &[&what[..], &["--format", "json", "-o", &ghz, &at]].concat(), PATIENCE);
    let fortio = file("fortio.json");
    // Each of Fortio's threads waits for an answer before its next call. About 5 calls are in flight at a time, so 16
    // threads are enough. `-r` makes the buckets of the histogram finer than Fortio's default of 1 ms.
    let how =
        ["-qps", RATE, "-t", "5s", "-c", "16", "-uniform", "-r", "0.0001", "-p", "50,90,99,99.9", "-json", &fortio];
    let url = format!("http://{http1}/");
    let load = [&["load"][..], &how[..], &[url.as_str()]].concat();
    programs::run_well("fortio", &load, PATIENCE);
    let over_grpc = lab("grpc", &["--duration-s", "5"], &dir.path().join("grpc"));
    let over_http1 = lab("http1", &["--duration-s", "5", "--connections", "16"], &dir.path().join("http1"));
    let call = ["call", &at, "--rate", RATE, "--report-s", "5", "--reports", "1"];
    let called = programs::run_well("leno", &call, PATIENCE);

    let compare = ["lab", "compare", "--json", &over_grpc, &ghz, &over_http1, &fortio];
    let sides: Vec<Value> =
        serde_json::from_str(&programs::run_well("leno", &compare, PATIENCE)).expect("compare prints JSON");
    let forms: Vec<&Value> = sides.iter().map(|side| &side["form"]).collect();
    assert_eq!(forms, ["leno", "ghz", "leno", "Fortio"]);
    for side in &sides {
        let (rate, p50_ms) = (figure(side, "rate_per_s"), figure(side, "p50_ms"));
        assert!(RATE_PER_S.contains(&rate) && figure(side, "errors_percent") == 0.0, "{side:#}");
        assert!(P50_MS.contains(&p50_ms) && figure(side, "p99_ms") >= p50_ms, "{side:#}");
    }
    let p50_ms = called.split("p50 ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(called.contains(", 0 failed") && p50_ms.is_some_and(|ms| P50_MS.contains(&ms)), "{called}");
    // The table is for people, so print it in the output of the test.
    println!("{}", programs::run_well("leno", &["lab", "compare", &over_grpc, &ghz, &over_http1, &fortio], PATIENCE));
}

#[test]
fn fortio_report_shows_the_runs_of_the_lab() {
    if !has_fortio() {
        return;
    }
    let out = tempfile::tempdir().expect("a writable temporary directory");
    lab("grpc", &["--duration-s", "1"], out.path());
    let results = out.path().join("fortio");
    let name = "slow-pod-direct-skew0ms-c1-n1000-rate500-r0001";
    let written = fs::read_to_string(results.join(format!("{name}.json"))).expect("leno lab run wrote it");
    let address = free_address();
    let (port, dir) = (address.to_string(), results.display().to_string());
    let _report =
        Server::start("fortio", &["report", "-http-port", &port, "-redirect-port", "disabled", "-data-dir", &dir]);
    // Wait for the status 200: Fortio may listen before it can serve its pages.
    let is_there = |list: &(u16, String)| list.0 == 200;
    let list = wait_for("fortio report", PATIENCE, || admin::get(address, "/").ok().filter(is_there));
    assert!(list.1.contains(name), "{list:?}");
    let data = admin::get(address, &format!("/data/{name}.json")).expect("Fortio serves it");
    assert_eq!(data, (200, written));
}
