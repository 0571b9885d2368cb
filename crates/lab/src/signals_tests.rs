use std::process::Command;

use super::*;

#[test]
fn a_program_that_nohup_starts_ignores_hang_ups_alone() {
    for (setting, is_hang_up_ignored) in [("--ignore-signal=HUP", true), ("--default-signal=HUP", false)] {
        let output = Command::new("env")
            .args(["--default-signal=TERM", setting, "cat", "/proc/self/status"])
            .output()
            .expect("env (coreutils) runs");
        let status = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ignores(&status, SignalKind::hangup()), is_hang_up_ignored, "{status}");
        assert!(!ignores(&status, SignalKind::terminate()), "{status}");
    }
}

#[test]
fn without_a_mask_no_signal_is_ignored() {
    for status in ["", "Name:\tcat\n", "SigIgn:\tnone\n"] {
        assert!(!ignores(status, SignalKind::hangup()), "{status}");
    }
}
