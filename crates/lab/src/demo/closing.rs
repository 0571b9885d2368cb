//! The end of the demo: the table, and next steps.

use std::fmt::Write as _;
use std::time::Duration;

use super::Options;
use super::row::{HEADER, Row};

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Maximum delay of a call that the load generator itself causes. With a longer delay, the figures describe the busy
/// machine rather than the servers.
const HELD_UP: Duration = Duration::from_millis(100);

/// Returns the table of all balancing modes, with explanations. `held_up` is the longest delay of a call that the load
/// generator itself caused, because it could not run in time.
pub(super) fn text(rows: &[Row], options: &Options, held_up: Duration, colours: bool) -> String {
    let (bold, plain) = if colours { (BOLD, PLAIN) } else { ("", "") };
    let (rate, slow_ms) = (options.rate, options.slow_ms);
    let mut text = format!(
        "\n{bold}Five gRPC servers, s5 {slow_ms} ms slower than the others, {rate} calls/s{plain}\n\n\
         {HEADER}\n"
    );
    let last = rows.len().saturating_sub(1);
    for (index, row) in rows.iter().enumerate() {
        let (start, end) = if index == last { (bold, plain) } else { ("", "") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{start}{row}{end}");
    }
    if held_up > HELD_UP {
        let ms = held_up.as_millis();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nThis machine was busy: the load itself was held up for {ms} ms. Run it again.");
    }
    text.push_str(
        "\n\
         pinned: five clients with one connection each. The client connected to s5 makes all its calls there.\n\
         round robin and Leno: one client with one connection to leno-proxy, which spreads its calls.\n\
         \n\
         What each number means: docs/laptop.md. How it works: ARCHITECTURE.md and docs/.\n\
         Your own services: leno-proxy --config examples/echo --outbound 127.0.0.1:4140 --admin 127.0.0.1:4191\n",
    );
    text
}

#[cfg(test)]
#[path = "closing_tests.rs"]
mod tests;
