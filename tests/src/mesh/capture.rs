//! Captures the frames between workloads, with tcpdump.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Mesh, Program, TIMEOUT, is_installed};
use crate::proxy::{Signal, wait_for};

/// Content of the frame that a test sends at the end: once tcpdump has captured this frame, it has captured all earlier
/// frames.
pub(crate) const LAST: &str = "the capture ends here";

/// Arguments of tcpdump besides the device and the file. With `-Z root`, tcpdump keeps running as root. `-B` sets a
/// buffer, in KiB, that is larger than all data of a test.
pub(crate) const TCPDUMP: [&str; 9] = ["-n", "-s", "0", "-B", "16384", "--immediate-mode", "-U", "-Z", "root"];

/// A running capture of all frames on the bridge.
#[derive(Debug)]
pub struct Capture<'a> {
    mesh: &'a Mesh,
    tcpdump: Program,
    file: PathBuf,
}

impl<'a> Capture<'a> {
    /// Starts a capture. Returns `None`, with a message, if tcpdump is not installed.
    pub fn start(mesh: &'a Mesh, name: &str) -> Option<Self> {
        if !is_installed("tcpdump", "tcpdump") {
            return None;
        }
        let file = mesh.directory().join(format!("{name}.pcap"));
        let path = file.to_str().expect("temporary directories have plain names");
        let arguments = [&TCPDUMP[..], &["-i", "br0", "-w", path]].concat();
        let tcpdump = mesh.switch().start("tcpdump", &arguments);
        tcpdump.wait_for_output(&["listening on"]);
        Some(Self { mesh, tcpdump, file })
    }

    /// Stops the capture, and returns the captured frames.
    ///
    /// # Panics
    /// If frames were lost.
    pub fn stop(mut self) -> Frames {
        self.mesh.switch().run_well("bash", &["-ec", "printf \"$0\" >/dev/udp/224.0.0.1/9", LAST]);
        let read = || Frames::read(&self.file);
        wait_for("the last frame", TIMEOUT, || read().contain(LAST.as_bytes()).then_some(()));
        self.tcpdump.signal(Signal::INT);
        self.tcpdump.wait(TIMEOUT);
        let said = self.tcpdump.output();
        assert!(said.contains("\n0 packets dropped by kernel"), "{said}");
        read()
    }
}

/// The bytes of captured frames.
#[derive(Debug)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Reads the frames from a file that tcpdump wrote.
    pub(crate) fn read(file: &Path) -> Self {
        Self(fs::read(file).expect("tcpdump writes it"))
    }

    /// Returns whether a frame contains `payload`, which must fit into one frame.
    pub fn contain(&self, payload: &[u8]) -> bool {
        self.0.windows(payload.len()).any(|window| window == payload)
    }
}
