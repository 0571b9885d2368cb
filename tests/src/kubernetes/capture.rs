//! Captures the frames between the nodes of a cluster, with tcpdump on the bridge between them.

use std::fs::File;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Cluster;
use crate::mesh::{Frames, LAST, TCPDUMP, is_installed, skipped};
use crate::proxy::wait_for;

/// The bridge of tests/kube.
const BRIDGE: &str = "lkbr0";
/// A port of the first node. [`Capture::stop`] sends the last frame of a capture to it, because frames from this
/// machine to the node cross the bridge.
const NODE: &str = "10.200.0.11:9";

const TIMEOUT: Duration = Duration::from_secs(30);

/// A running capture of all frames between nodes. The capture ends with the test, even if the test fails.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Child,
    directory: tempfile::TempDir,
}

impl Capture {
    /// Starts a capture. Returns `None`, with a message, if the cluster is external or tcpdump is not installed.
    ///
    /// # Panics
    /// If tcpdump does not start.
    pub fn start(cluster: &Cluster) -> Option<Self> {
        if !cluster.is_ours() {
            skipped("nobody here can listen between the nodes of LENO_KUBECONFIG's cluster");
            return None;
        }
        if !is_installed("tcpdump", "tcpdump") {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let said = File::create(directory.path().join("said")).expect("a file");
        let mut command = Command::new("tcpdump");
        command.args(TCPDUMP).args(["-i", BRIDGE, "-w"]).arg(directory.path().join("frames"));
        let tcpdump = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("tcpdump runs");
        let capture = Self { tcpdump, directory };
        wait_for("tcpdump listens", TIMEOUT, || capture.said().contains("listening on").then_some(()));
        Some(capture)
    }

    /// Stops the capture, and returns the captured frames.
    ///
    /// # Panics
    /// If frames were lost.
    pub fn stop(mut self) -> Frames {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.send_to(LAST.as_bytes(), NODE).expect("a node is there");
        let file: PathBuf = self.directory.path().join("frames");
        wait_for("the last frame", TIMEOUT, || Frames::read(&file).contain(LAST.as_bytes()).then_some(()));
        let pid = i32::try_from(self.tcpdump.id()).ok().and_then(Pid::from_raw).expect("process ids are positive");
        kill_process(pid, Signal::INT).expect("it runs");
        self.tcpdump.wait().expect("it is ours");
        let said = self.said();
        assert!(said.contains("\n0 packets dropped by kernel"), "{said}");
        Frames::read(&file)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("said")).expect("tcpdump writes it")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Ignore an error: tcpdump may have ended already.
        self.tcpdump.kill().ok();
        self.tcpdump.wait().ok();
    }
}
