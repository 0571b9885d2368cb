//! Whole relays between simulated clients and servers, one or two in a row, over a simulated network and in virtual time.
//! Everything that happens follows from one seed.
//!
//! Checked all the time: each call ends exactly once, and not long after its deadline; content arrives whole, in order
//! and once, in both directions; no call is sent again that a server may have processed; both sides keep to HTTP/2.
//! Checked in the end: every call is over and recorded once; if servers, limits and the machine gave no reason to lose
//! a call, none is lost; and the relay holds nothing any more.
//!
//! Each seed is a world of its own. `LENO_SEED=7` repeats a world; `LENO_WORLDS=4000..100000` runs through those.
//! `LENO_WITHOUT=drains,changes` leaves parts out, see `parts.rs`.

mod arrival;
mod attack;
mod caller;
mod content;
mod intruder;
mod line;
mod log;
mod mesh;
mod net;
mod parts;
mod proxy;
mod server;
mod shell;
mod world;

use std::ops::Range;

use parts::Parts;
use world::Total;

/// The seeds of a usual run.
const WORLDS: Range<u64> = 0..4_000;

fn worlds() -> Range<u64> {
    let Ok(text) = std::env::var("LENO_WORLDS") else { return WORLDS };
    let range = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or_else(|| panic!("LENO_WORLDS={text} is not a range like 0..100"))
}

#[test]
fn every_call_ends_once_whatever_clients_servers_and_networks_do() {
    let (mut worlds_run, mut total, parts) = (0, Total::default(), Parts::chosen());
    for seed in leno_testing::seeds(worlds()) {
        total.add(&world::run(seed, parts).unwrap_or_else(|why| panic!("{why}")));
        worlds_run += 1;
    }
    let Total { calls, endings, steps, virtual_time, calm_worlds } = total;
    println!("{worlds_run} worlds ({calm_worlds} calm), {calls} calls, {endings:?}, {steps} steps, {virtual_time:?}");
    if !leno_testing::is_repeated() {
        assert!(endings.answered > calls / 3, "{endings:?}: hardly any call is answered");
    }
}
