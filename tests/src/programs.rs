//! Third-party clients and servers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Returns the path of a program. Searches the directory `LENO_PROGRAMS`, the programs that `./test` installed, the
/// programs that `cargo build --release` built, and then the `PATH`.
pub fn program(name: &str) -> PathBuf {
    let chosen = std::env::var_os("LENO_PROGRAMS").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/bin");
    // The test's path is like target/debug/deps/system-0123, so its third parent directory is `target`.
    let test = std::env::current_exe().expect("this program");
    let released = test.ancestors().nth(3).expect("cargo's target directory").join("release");
    let places = chosen.into_iter().chain([installed, released]);
    places.map(|place| place.join(name)).find(|path| path.is_file()).unwrap_or_else(|| name.into())
}

/// Returns a command that runs `command` under coreutils' `env`. `setting` is the option of `env` that sets how the
/// program handles SIGHUP. Without this option, the program inherits the handling from the tests, and ignores SIGHUP if
/// the tests run under nohup.
pub fn with_hang_ups(setting: &str, command: &Command) -> Command {
    let mut with_setting = Command::new("env");
    with_setting.arg(setting).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    with_setting
}

/// Runs a program to its end, for at most `timeout`.
///
/// # Panics
/// If it does not start, or does not end in time.
pub fn run(name: &str, arguments: &[&str], timeout: Duration) -> Output {
    let limit = format!("{}s", timeout.as_secs());
    let output = Command::new("timeout")
        .args([OsString::from(&limit), program(name).into()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("timeout (coreutils) runs");
    let why = match output.status.code() {
        Some(124) => format!("did not end within {limit}"),
        Some(126 | 127) => "is not there; ./test installs or builds it".to_owned(),
        _ => return output,
    };
    panic!("{name} {why}: {}", text(&output));
}

/// Runs a program that must succeed, and returns what it printed.
///
/// # Panics
/// If it fails.
pub fn run_well(name: &str, arguments: &[&str], timeout: Duration) -> String {
    let output = run(name, arguments, timeout);
    let printed = text(&output);
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{printed}", output.status);
    printed
}

/// Standard output, followed by standard error.
pub fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// A server program. Dropping this value kills the program.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts the server.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program(name));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{name}: {error}; ./test installs or builds it")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
