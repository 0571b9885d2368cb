//! `leno run`: unmodified programs that find and call each other through their proxies, and leave nothing behind.
//!
//! Each test runs itself again in separate namespaces, which represent a whole machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use leno_tests::proxy::{Signal, wait_for};
use leno_tests::{namespaces, programs};
use rustix::process::{Pid, kill_process};

/// Longest time for a step on a busy machine. Usually, a run starts in less than a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// The user id of the proxies.
const PROXY_UID: u32 = 2102;
const MANIFESTS: &str = "/run/leno/manifests";

/// A server that answers each line with the same line in capitals.
const SHOUTING_SERVER: &str = "
import socketserver
class Shout(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
socketserver.ThreadingTCPServer(('0.0.0.0', 7000), Shout).serve_forever()";

/// A client that sends one line to [`SHOUTING_SERVER`], and prints the answer.
const SHOUTING_CLIENT: &str = "exec 3<>/dev/tcp/shouter/7000 && echo a secret >&3 && head -n 1 <&3";

/// A program that captures every frame on the network device of the first run, and writes the frames to a file.
const CAPTURE: &str = "
import socket
device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
device.bind(('leno0-2', 0))
with open('/run/captured', 'wb', buffering=0) as captured:
    while True:
        captured.write(device.recv(65536))";

#[test]
fn programs_call_each_other_by_the_names_of_their_services() {
    namespaces::run_test_inside("run::calls", &[]);
}

#[test]
fn five_servers_are_restarted_one_after_the_other_and_no_call_fails() {
    namespaces::run_test_inside("run::rolling_restart", &[]);
}

#[test]
fn nothing_that_programs_say_crosses_the_wire_in_clear() {
    namespaces::run_test_inside("run::is_encrypted", &[]);
}

#[test]
fn a_run_ends_as_its_program_does_and_passes_signals_on() {
    namespaces::run_test_inside("run::ends", &[]);
}

#[test]
fn a_run_that_was_killed_is_removed_by_the_next_one() {
    namespaces::run_test_inside("run::was_killed", &[]);
}

#[test]
fn a_run_that_was_killed_is_removed_with_its_own_bridge() {
    namespaces::run_test_inside("run::was_killed_on_another_bridge", &[]);
}

#[test]
fn a_program_that_survives_a_signal_is_called_again() {
    namespaces::run_test_inside("run::survives", &[]);
}

#[test]
fn a_run_under_nohup_ignores_hang_ups_and_so_does_its_program() {
    namespaces::run_test_inside("run::ignores_hang_ups", &[]);
}

#[test]
fn a_mesh_touches_neither_the_bridge_nor_the_namespaces_of_others() {
    namespaces::run_test_inside("run::two_meshes", &[]);
}

#[test]
fn names_and_manifests_come_while_a_program_runs() {
    namespaces::run_test_inside("run::follows", &[]);
}

#[test]
fn a_proxy_that_dies_is_started_again() {
    namespaces::run_test_inside("run::proxy_dies", &[]);
}

#[test]
fn a_proxy_that_dies_is_started_again_after_leno_was_upgraded() {
    namespaces::run_test_inside("run::proxy_dies_after_an_upgrade", &[]);
}

#[test]
fn a_program_that_does_not_listen_is_named_and_joins_once_it_does() {
    namespaces::run_test_inside("run::listens_late", &[]);
}

#[test]
fn whoever_is_not_root_is_told_so_in_one_line() {
    let leno = programs::program("leno");
    let mut command = Command::new("unshare");
    command.arg("--user").arg(leno).args(["run", "--service", "cart", "--", "true"]);
    let output = command.output().expect("unshare (util-linux) runs");
    let error = programs::text(&output);
    assert!(!output.status.success() && error.lines().count() == 1 && error.contains("sudo leno run"), "{error}");
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn calls() {
    let (mut first, second) = (serve_echo("first"), serve_echo("second"));
    let shouter = ["--service", "shouter", "--namespace", "shop", "--port", "7000"];
    let _shouter = Run::start(&shouter, &["python3", "-c", SHOUTING_SERVER]);
    for number in [2, 3, 4] {
        wait_for_endpoint(number);
    }

    // Make all calls at the same time, so that the balancer uses both servers.
    let grpcurl = programs::program("grpcurl").to_string_lossy().into_owned();
    let answers = |name: &str, calls: usize| {
        let data = r#"{"delay_ms": 50}"#;
        let call = format!("\"$0\" -plaintext -d '{data}' {name}:50051 leno.echo.v1.Echo/Unary");
        let script = format!("for call in $(seq {calls}); do {call} & done; wait");
        let answers = run_well(&["--service", "web", "--namespace", "shop"], &["sh", "-c", &script, &grpcurl]);
        assert_eq!(answers.matches("\"server\": ").count(), calls, "{name}: {answers}");
        answers
    };
    for name in ["echo.shop", "echo.shop.svc", "echo.shop.svc.cluster.local"] {
        answers(name, 1);
    }
    let mut all = String::new();
    wait_for("answers of both servers", PATIENCE, || {
        all.push_str(&answers("echo", 10));
        (all.contains("\"first\"") && all.contains("\"second\"")).then_some(())
    });

    let shouted = run_well(&["--service", "web", "--namespace", "shop"], &["bash", "-ec", SHOUTING_CLIENT]);
    assert_eq!(shouted, "A SECRET\n");

    // A program calls its own service, through its own proxy in both directions.
    let itself = "\"$0\" echo --listen 0.0.0.0:50052 --name itself & until \"$1\" -plaintext -d '{}' \
                  narcissus:50052 leno.echo.v1.Echo/Unary; do sleep 0.1; done; kill $!";
    let service = ["--service", "narcissus", "--port", "50052"];
    let leno = programs::program("leno").to_string_lossy().into_owned();
    let answer = run_well(&service, &["sh", "-c", itself, &leno, &grpcurl]);
    assert!(answer.contains("\"itself\""), "{answer}");

    // Stop one of the two servers gracefully. All calls must then go to the other server.
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), Some(0));
    let others = answers("echo", 10);
    assert!(!others.contains("\"first\""), "{others}");
    drop(second);
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn rolling_restart() {
    // Start the servers one after another, so that the numbers of their runs are 2, 3, 4, 5 and 6.
    let start = |number| {
        let server = serve_echo("echo");
        wait_for_endpoint(number);
        server
    };
    let mut servers: Vec<Run> = (2..7).map(start).collect();
    let ghz = programs::program("ghz").to_string_lossy().into_owned();
    let load = "--insecure --call leno.echo.v1.Echo/Unary -d {} --rps 300 -n 4500 -c 50 --connections 2 -O json \
                echo:50051";
    let load: Vec<&str> = [ghz.as_str()].into_iter().chain(load.split_whitespace()).collect();
    let client = leno(&["--service", "web", "--namespace", "shop"], &load).stdout(Stdio::piped()).spawn();
    let client = client.expect("leno starts");
    for (number, server) in (2..).zip(&mut servers) {
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), Some(0));
        assert!(!endpoint(number).exists());
        // The new run gets the number of the run that ended, and so also its address.
        *server = start(number);
    }
    let output = client.wait_with_output().expect("it ends");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("ghz prints JSON");
    let (codes, errors) = (&report["statusCodeDistribution"], &report["errorDistribution"]);
    assert_eq!(*codes, serde_json::json!({"OK": 4500}), "{errors}");
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn is_encrypted() {
    let service = ["--service", "shouter", "--port", "7000"];
    let _shouter = Run::start(&service, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(2);
    let captured = Path::new("/run/captured");
    let capture = Command::new("python3").args(["-c", CAPTURE]).spawn().expect("python3 runs");
    let _capture = Run(capture);
    wait_for("the capture", PATIENCE, || captured.exists().then_some(()));
    assert_eq!(run_well(&["--service", "web"], &["bash", "-ec", SHOUTING_CLIENT]), "A SECRET\n");

    let has = |frames: &[u8], text: &str| frames.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    // The server name in the proxies' handshake is unencrypted, and shows that their frames are captured.
    let frames = wait_for("a handshake between proxies", PATIENCE, || {
        fs::read(captured).ok().filter(|frames| has(frames, ".leno.internal"))
    });
    assert!(!has(&frames, "a secret") && !has(&frames, "A SECRET"));
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn ends() {
    assert_eq!(run(&["--service", "cart"], &["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["--service", "cart"], &["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let missing = run(&["--service", "cart"], &["no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(programs::text(&missing).contains("no-such-program: No such file"), "{}", programs::text(&missing));

    run_well(&["--service", "cart", "--proxy-log", "/run/kept.log", "--proxy-arg=--log-format=json"], &["true"]);
    let log = fs::read_to_string("/run/kept.log").expect("it stays");
    assert!(log.lines().all(|line| line.starts_with('{')) && log.contains("serving"), "{log}");
    let refused = run(&["--service", "cart", "--proxy-arg=--no-such-option"], &["true"]);
    let error = programs::text(&refused);
    assert!(!refused.status.success() && error.lines().count() == 1 && error.contains("--no-such-option"), "{error}");

    for (signal, code) in [(Signal::TERM, 15), (Signal::USR1, 10)] {
        let script = format!("trap 'exit {code}' {code}; touch /run/started; while :; do sleep 0.05; done");
        let mut run = Run::start(&["--service", "cart"], &["sh", "-c", &script]);
        wait_for("the program", PATIENCE, || Path::new("/run/started").exists().then_some(()));
        run.signal(signal);
        assert_eq!(run.wait(), Some(code), "{signal:?}");
        fs::remove_file("/run/started").expect("it is there");
    }

    // The program runs as the user who called sudo, with a separate network and hosts file.
    let mut command = leno(&["--service", "cart"], &["sh", "-c", "id -u; cat /proc/net/dev /etc/hosts"]);
    let own_hosts = fs::read_to_string("/etc/hosts").expect("it is there");
    let output = command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().expect("leno starts");
    let printed = programs::text(&output);
    assert!(printed.contains("\n65534\n") || printed.starts_with("65534\n"), "{printed}");
    assert!(printed.contains("eth0:") && printed.contains("# Services of the mesh"), "{printed}");
    assert_eq!(fs::read_to_string("/etc/hosts").expect("it is there"), own_hosts);
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn was_killed() {
    let service = ["--service", "cart", "--port", "7000"];
    let mut killed = Run::start(&service, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(2);
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(Path::new("/run/netns/leno0-2").exists() && endpoint(2).exists(), "nobody has removed it yet");

    // The next run notices that the killed run is dead, removes everything that it left behind, and takes over its
    // number.
    run_well(&["--service", "cart"], &["test", "!", "-e", &endpoint(2).to_string_lossy()]);
    assert_nothing_is_left();

    let mut killed = Run::start(&service, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(2);
    let living = Run::start(&service, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(3);
    killed.signal(Signal::KILL);
    killed.wait();
    let cleaned = programs::run_well("leno", &["run", "--clean"], PATIENCE);
    assert_eq!(cleaned, "dead runs removed: 1\n");
    assert!(endpoint(3).exists() && Path::new("/run/netns/leno0-3").exists(), "that one lives");
    drop(living);
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn was_killed_on_another_bridge() {
    let living = Run::start(&["--service", "cart", "--port", "7000"], &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(2);
    let other = ["--service", "cart", "--port", "7000", "--bridge", "other0", "--subnet", "10.244.79.0/24"];
    let mut killed = Run::start(&other, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(3);
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(Path::new("/run/netns/other0-3").exists() && device_exists("other0"), "nothing has removed it yet");

    // `leno run --clean` uses the bridge leno0, because the command line names no other. It must still remove the dead
    // run on the bridge other0.
    let cleaned = programs::run_well("leno", &["run", "--clean"], PATIENCE);
    assert_eq!(cleaned, "dead runs removed: 1\n");
    assert!(!Path::new("/run/netns/other0-3").exists() && !endpoint(3).exists());
    assert!(!device_exists("other0") && device_exists("leno0"), "a run on leno0 lives");

    // Kill another run, and create a bridge of the same name, as another program might. The run's namespace may then
    // belong to the other program, too, so `leno run --clean` must not remove it.
    let mut killed = Run::start(&other, &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(3);
    killed.signal(Signal::KILL);
    killed.wait();
    programs::run_well("ip", &["link", "delete", "dev", "other0"], PATIENCE);
    programs::run_well("ip", &["link", "add", "name", "other0", "type", "bridge"], PATIENCE);
    let cleaned = programs::run_well("leno", &["run", "--clean"], PATIENCE);
    assert_eq!(cleaned, "dead runs removed: 1\n");
    assert!(Path::new("/run/netns/other0-3").exists() && device_exists("other0") && !endpoint(3).exists());
    drop(living);
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn survives() {
    let handles = "import signal\nfor of in (signal.SIGHUP, signal.SIGINT): signal.signal(of, lambda *_: None)";
    let server = format!("{handles}\n{SHOUTING_SERVER}");
    let command = leno(&["--service", "shouter", "--port", "7000"], &["python3", "-c", &server]);
    let mut run = Run(programs::with_hang_ups("--default-signal=HUP", &command).spawn().expect("env (coreutils) runs"));
    wait_for_endpoint(2);
    for signal in [Signal::HUP, Signal::INT] {
        run.signal(signal);
        // The signal may end the program. So the run withdraws its endpoint, and publishes it again if the program
        // still listens.
        wait_for("the withdrawal", PATIENCE, || (!endpoint(2).exists()).then_some(()));
        wait_for_endpoint(2);
        assert_eq!(run_well(&["--service", "web"], &["bash", "-ec", SHOUTING_CLIENT]), "A SECRET\n", "{signal:?}");
    }
    run.signal(Signal::TERM);
    assert_eq!(run.wait(), Some(143));
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn ignores_hang_ups() {
    // The program prints the signals that its parent `leno run` ignores, and the signals that the program itself
    // ignores.
    let masks = ["sh", "-c", "sed -n 's/SigIgn://p' /proc/$PPID/status /proc/self/status"];
    for (setting, wanted) in [("--ignore-signal=HUP", [1, 1]), ("--default-signal=HUP", [0, 0])] {
        let output = programs::with_hang_ups(setting, &leno(&["--service", "web"], &masks)).output().expect("env runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        let is_ignored = |mask: &str| u64::from_str_radix(mask, 16).expect("a mask") & 1;
        // SIGHUP is signal 1, so it is the lowest bit of the mask.
        let masks: Vec<u64> = printed.split_whitespace().map(is_ignored).collect();
        assert_eq!(masks, wanted, "{setting}: {}", programs::text(&output));
    }
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn two_meshes() {
    let living = Run::start(&["--service", "shouter", "--port", "7000"], &["python3", "-c", SHOUTING_SERVER]);
    wait_for_endpoint(2);

    // `leno run` must refuse a second mesh on the same bridge: the namespaces of its runs would have the same names as
    // in the first mesh.
    let second = ["--state", "/run/second", "--service", "web"];
    let refusals =
        [run(&second, &["true"]), programs::run("leno", &["run", "--clean", "--state", "/run/second"], PATIENCE)];
    for refused in refusals {
        let error = programs::text(&refused);
        assert!(!refused.status.success() && error.lines().count() == 1, "{error}");
        assert!(error.contains("--state /run/leno;") && error.contains("--state /run/second another one"), "{error}");
    }
    assert_eq!(run_well(&["--service", "web"], &["bash", "-ec", SHOUTING_CLIENT]), "A SECRET\n");

    let networks = ["--bridge", "second0", "--subnet", "10.244.79.0/24", "--service-subnet", "10.244.80.0/24"];
    let second = [&second[..], &networks].concat();
    run_well(&second, &["true"]);
    programs::run_well("ip", &["netns", "add", "second0-2"], PATIENCE);
    let refused = programs::text(&run(&second, &["true"]));
    assert!(refused.contains("second0-2 exists") && refused.lines().count() == 1, "{refused}");
    programs::run_well("ip", &["netns", "delete", "second0-2"], PATIENCE);
    programs::run_well("ip", &["link", "add", "name", "second0", "type", "bridge"], PATIENCE);
    let refused = programs::text(&run(&second, &["true"]));
    assert!(refused.contains("second0 exists") && refused.lines().count() == 1, "{refused}");
    programs::run_well("ip", &["link", "delete", "dev", "second0"], PATIENCE);

    drop(living);
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn follows() {
    let config = tempfile::tempdir().expect("a temporary directory");
    let directory = config.path().to_string_lossy().into_owned();
    let waits = "until grep -q '10.9.9.9 late.shop ' /etc/hosts; do sleep 0.05; done; touch /run/seen
        while grep -q late /etc/hosts; do sleep 0.05; done";
    let mut run = Run::start(&["--service", "web", "--config", &directory], &["sh", "-c", waits]);
    let late = config.path().join("late.yaml");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: late, namespace: shop}, \
                   spec: {clusterIP: 10.9.9.9, ports: [{port: 80}]}}";
    fs::write(&late, service).expect("it is written");
    wait_for("the name in /etc/hosts", PATIENCE, || Path::new("/run/seen").exists().then_some(()));
    fs::remove_file(&late).expect("it is there");
    assert_eq!(run.wait(), Some(0));
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn proxy_dies() {
    let waits = "touch /run/started; until [ -e /run/done ]; do sleep 0.05; done";
    let mut run = Run::start(&["--service", "web"], &["sh", "-c", waits]);
    wait_for("the program", PATIENCE, || Path::new("/run/started").exists().then_some(()));
    let first = proxy_in("leno0-2").expect("programs start after it");
    kill_process(first, Signal::KILL).expect("it runs");
    wait_for("another proxy", PATIENCE, || proxy_in("leno0-2").filter(|pid| *pid != first));
    fs::write("/run/done", "").expect("it is written");
    assert_eq!(run.wait(), Some(0));
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn proxy_dies_after_an_upgrade() {
    let installed = Path::new("/run/installed-leno");
    fs::copy(programs::program("leno"), installed).expect("there is room");
    let waits = "touch /run/started; until [ -e /run/done ]; do sleep 0.05; done";
    let arguments = ["run", "--service", "web", "--", "sh", "-c", waits];
    let child = Command::new(installed).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut run = Run(child.expect("leno starts"));
    wait_for("the program", PATIENCE, || Path::new("/run/started").exists().then_some(()));
    let first = proxy_in("leno0-2").expect("programs start after it");
    // Upgrade as package managers do: another file replaces the program's file.
    fs::write("/run/new-leno", "another version").expect("there is room");
    fs::rename("/run/new-leno", installed).expect("it is there");
    kill_process(first, Signal::KILL).expect("it runs");
    wait_for("another proxy", PATIENCE, || proxy_in("leno0-2").filter(|pid| *pid != first));
    fs::write("/run/done", "").expect("it is written");
    assert_eq!(run.wait(), Some(0));
    assert_nothing_is_left();
}

#[ignore = "runs inside the namespaces that another test makes"]
#[test]
fn listens_late() {
    let server = format!("import os, time\nwhile not os.path.exists('/run/go'): time.sleep(0.05)\n{SHOUTING_SERVER}");
    let errors = fs::File::create("/run/errors").expect("there is room");
    let options = ["--service", "shouter", "--port", "7000"];
    let child = leno(&options, &["python3", "-c", &server]).stdout(Stdio::null()).stderr(errors).spawn();
    let run = Run(child.expect("leno starts"));
    let said = "after 5 s python3 does not listen on port 7000 yet";
    wait_for("a line about the port", PATIENCE, || {
        fs::read_to_string("/run/errors").is_ok_and(|text| text.contains(said)).then_some(())
    });
    assert!(!endpoint(2).exists(), "it does not serve yet");
    fs::write("/run/go", "").expect("it is written");
    wait_for_endpoint(2);
    assert_eq!(run_well(&["--service", "web"], &["bash", "-ec", SHOUTING_CLIENT]), "A SECRET\n");
    drop(run);
    assert_nothing_is_left();
}

/// A run in the background. Dropping this value ends the run.
struct Run(Child);

impl Run {
    fn start(options: &[&str], program: &[&str]) -> Self {
        Self(leno(options, program).stdout(Stdio::null()).spawn().expect("leno starts"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Waits for the run's end, and returns the exit code. `None` if a signal killed `leno run` itself.
    fn wait(&mut self) -> Option<i32> {
        let status = wait_for("the end of the run", PATIENCE, || self.0.try_wait().expect("the child is ours"));
        status.code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal(Signal::TERM);
            self.0.wait().ok();
        }
    }
}

/// Starts another server of the service `echo` in the namespace `shop`.
fn serve_echo(name: &str) -> Run {
    let leno = programs::program("leno").to_string_lossy().into_owned();
    let service = ["--service", "echo", "--namespace", "shop", "--port", "50051"];
    Run::start(&service, &[&leno, "echo", "--listen", "0.0.0.0:50051", "--name", name])
}

fn leno(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(programs::program("leno"));
    command.arg("run").args(options).arg("--").args(program).stdin(Stdio::null());
    command
}

fn run(options: &[&str], program: &[&str]) -> Output {
    leno(options, program).output().expect("leno starts: `cargo build --release -p leno` builds it")
}

/// Runs a program that must succeed, and returns its output.
fn run_well(options: &[&str], program: &[&str]) -> String {
    let output = run(options, program);
    assert!(output.status.success(), "{program:?}: {}", programs::text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the id of the proxy's process in a network namespace. The proxy is the only process that runs as the user
/// [`PROXY_UID`].
fn proxy_in(namespace: &str) -> Option<Pid> {
    let pids = programs::run_well("ip", &["netns", "pids", namespace], PATIENCE);
    let is_proxys = |pid: &&str| fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == PROXY_UID);
    let pid = pids.lines().map(str::trim).find(is_proxys)?;
    Pid::from_raw(pid.parse().ok()?)
}

fn endpoint(number: u16) -> PathBuf {
    Path::new(MANIFESTS).join(format!("endpoint.{number}.yaml"))
}

fn device_exists(name: &str) -> bool {
    programs::run("ip", &["link", "show", "dev", name], PATIENCE).status.success()
}

fn wait_for_endpoint(number: u16) {
    wait_for(&format!("the endpoint {number}"), PATIENCE, || endpoint(number).exists().then_some(()));
}

fn assert_nothing_is_left() {
    let left = "ip netns; ip -brief link; ls /run/leno/manifests /run/leno/runs";
    let left = programs::run_well("sh", &["-ec", left], PATIENCE);
    assert!(!left.contains("leno0") && !left.contains("yaml"), "{left}");
    assert!(left.ends_with("/run/leno/manifests:\n\n/run/leno/runs:\n"), "{left}");
}
