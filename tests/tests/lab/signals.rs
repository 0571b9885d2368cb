//! Signals to the lab's commands: a command that a signal ends leaves no file, and commands under nohup ignore SIGHUP.

use super::*;

/// Longest time for a step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts `command`, which writes its temporary files to `scratch`. `setting` is the option of coreutils' `env` that
/// sets how the command handles SIGHUP.
fn start(setting: &str, command: &Command, scratch: &Path) -> Running {
    let mut command = programs::with_hang_ups(setting, command);
    command.env("TMPDIR", scratch).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("env (coreutils) runs"))
}

/// Returns a command of `leno`, with a space between its words.
fn leno(words: &str) -> Command {
    let mut command = Command::new(programs::program("leno"));
    command.args(words.split(' '));
    command
}

/// Waits until a measurement has started its fifth and last backend, with its files in `scratch`.
fn wait_for_backends(scratch: &Path) {
    wait_for("the backends", PATIENCE, || {
        let mut directories = fs::read_dir(scratch).expect("a scratch directory").flatten();
        directories.any(|directory| directory.path().join("backend-5.log").exists()).then_some(())
    });
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).expect("a directory").next().is_none()
}

/// Returns whether a process ignores SIGHUP: signal 1 is the lowest bit of the mask of ignored signals.
fn ignores_hang_ups(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("proc_pid_status(5)");
    u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 == 1
}

#[test]
fn the_cost_of_relaying_is_measured_to_its_end() {
    let scratch = new_dir();
    let output = leno("relay-cost --targets direct --repeat 2 --calls 2000").env("TMPDIR", scratch.path()).output();
    let output = output.expect("leno starts");
    let printed = programs::text(&output);
    assert!(output.status.success() && printed.matches("direct").count() >= 3, "{printed}");
    assert!(is_empty(scratch.path()));
}

#[test]
fn a_signal_ends_the_measurement_of_relaying_and_leaves_no_file() {
    for (scenario, signal) in [("unary", Signal::INT), ("unary", Signal::HUP), ("server-stream", Signal::TERM)] {
        let scratch = new_dir();
        let command = leno(&format!("relay-cost --scenario {scenario} --targets direct --repeat 1000"));
        let mut cost = start("--default-signal=HUP", &command, scratch.path());
        wait_for_backends(scratch.path());
        kill_process(Pid::from_child(&cost.0), signal).expect("it runs");
        let status = wait_for("the end", PATIENCE, || cost.0.try_wait().expect("the child is ours"));
        assert_eq!(status.code(), Some(1), "{signal:?}: {status}");
        assert!(is_empty(scratch.path()), "{signal:?}");
    }
}

#[test]
fn under_nohup_commands_ignore_hang_ups() {
    for words in ["demo --plain --rate 100", "relay-cost --targets direct --repeat 1000"] {
        let scratch = new_dir();
        let command = start("--ignore-signal=HUP", &leno(words), scratch.path());
        // A command sets up its signal handling before it writes its first file. So its mask is final when the file
        // exists.
        wait_for("the first file", PATIENCE, || (!is_empty(scratch.path())).then_some(()));
        assert!(ignores_hang_ups(command.0.id()), "{words}");
    }
    let (out, scratch) = (new_dir(), new_dir());
    let words = "lab publish slow-pod-2026 --targets leno-mesh --duration-s 1 --warm-up-s 0 --repeat 100 --out";
    let mut command = leno(words);
    command.arg(out.path());
    let lab = start("--ignore-signal=HUP", &command, scratch.path());
    wait_for("the first run", PATIENCE, || (!runs(&out.path().join("slow-pod")).is_empty()).then_some(()));
    assert!(ignores_hang_ups(lab.0.id()));
}
