//! A whole HTTP/2 connection: one engine whose peer sends arbitrary bytes, or two engines whose owners keep to the
//! protocol. The owner of an engine is the code that calls it.
#![no_main]

#[path = "connection/alone.rs"]
mod alone;
#[path = "connection/pair.rs"]
mod pair;
#[path = "connection/script.rs"]
mod script;

use leno_http2::Role;
use libfuzzer_sys::fuzz_target;

// The first byte selects the scenario; the other bytes are its script.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let script = script::Script::new(rest);
    match choice % 4 {
        0 => alone::play(Role::Server, script),
        1 => alone::play(Role::Client, script),
        _ => pair::play(script),
    }
});
