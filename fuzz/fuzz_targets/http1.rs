//! Whole HTTP/1 connections. Either one engine's peer sends arbitrary bytes, or one engine receives messages, a second
//! engine sends the messages on, and a third engine reads them.
#![no_main]

#[path = "http1/alone.rs"]
mod alone;
#[path = "http1/relay.rs"]
mod relay;
#[path = "connection/script.rs"]
#[allow(dead_code, reason = "shared with the HTTP/2 target")]
mod script;
#[path = "http1/side.rs"]
mod side;

use leno_http1::Role;
use libfuzzer_sys::fuzz_target;

// The first byte selects the scenario; the other bytes are its input.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    match choice % 4 {
        0 => alone::play(Role::Server, script::Script::new(rest)),
        1 => alone::play(Role::Client, script::Script::new(rest)),
        2 => relay::requests(choice / 4, rest),
        _ => relay::responses(choice / 4, rest),
    }
});
