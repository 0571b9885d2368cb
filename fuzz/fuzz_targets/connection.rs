//! A whole connection: an engine beside a peer that says anything, and two engines that are honest with each other.
#![no_main]

#[path = "connection/alone.rs"]
mod alone;
#[path = "connection/pair.rs"]
mod pair;
#[path = "connection/script.rs"]
mod script;

use leno_http2::Role;
use libfuzzer_sys::fuzz_target;

// The first byte chooses the play, the others are its script.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let script = script::Script::new(rest);
    match choice % 4 {
        0 => alone::play(Role::Server, script),
        1 => alone::play(Role::Client, script),
        _ => pair::play(script),
    }
});
