//! Shortens a world that fails: leaves out, one by one, the parts that the failure does not need.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::parts::Parts;
use crate::world::{self, Total};

/// Runs a world. Returns a panic as an error.
pub(crate) fn run(seed: u64, parts: Parts) -> Result<Total, String> {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, parts))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", text.unwrap_or("without a text")))
    })
}

/// Returns the parts that a failing world needs in order to fail, and the error with these parts. The error may differ
/// from the first error.
pub(crate) fn shorten(seed: u64, mut parts: Parts, mut why: String) -> (Parts, String) {
    // Silence the panics of the shorter worlds: their output would hide the first panic.
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    loop {
        let before = parts;
        for part in Parts::all() {
            if parts.has(part)
                && let Err(error) = run(seed, parts.without(part))
            {
                (parts, why) = (parts.without(part), error);
            }
        }
        // Repeat until no part can be left out: without one part, another part may be unnecessary, too.
        if parts == before {
            break;
        }
    }
    set_hook(hook);
    (parts, why)
}
