//! Tests that a machine cannot run.

use std::io::{self, Write as _};
use std::thread;

/// Reports that the current test does not run, and why. The test must return right after this call.
///
/// The test harness has no result for skipped tests, and counts the test as passed. `./test` corrects that: it reads
/// this line, `SKIPPED: test name: why`, from the output. Call this function on the test's own thread, which has the
/// test's name.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let line = line(thread.name().unwrap_or("a test"), why);
    // Do not use eprintln: the harness hides its output if the test passes. Ignore a failed write to standard error:
    // there is no other way to reach `./test`.
    io::stderr().write_all(line.as_bytes()).ok();
}

fn line(test: &str, why: &str) -> String {
    format!("SKIPPED: {test}: {}\n", why.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_one_line_and_names_the_test_first() {
        assert_eq!(line("mesh::it_works", "no\nroot"), "SKIPPED: mesh::it_works: no root\n");
    }
}
