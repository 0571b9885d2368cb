use std::os::unix::ffi::OsStrExt;

use super::*;

fn command_of(line: &str) -> String {
    command(line.split(' ').map(str::to_owned), 7)
}

#[test]
fn the_command_repeats_the_same_order_of_runs() {
    assert_eq!(command_of("target/release/leno lab run slow-pod"), "leno lab run slow-pod --seed 7");
    assert_eq!(command_of("leno lab run slow-pod --seed=3"), "leno lab run slow-pod --seed=3");
}

#[test]
fn a_path_that_is_invalid_utf8_is_a_printable_word() {
    let path = OsStr::from_bytes(b"--out=caf\xe9");
    assert_eq!(printable(path), "--out=caf\u{fffd}");
}
