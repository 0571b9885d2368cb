//! Whole relays between simulated clients and servers, over a simulated network and in virtual time. A call goes
//! through one relay, or through two relays. One seed determines all events.
//!
//! Clients and servers speak HTTP/2, HTTP/1 or an opaque protocol; some break the protocol. Some clients are silent at
//! first, so that relays must guess whether the server speaks first. While calls are in flight, peers change their
//! SETTINGS, close one side of a connection, or reset it. Relays drain and start again, their listeners may accept only
//! a few connections at a time, the mesh changes, and the machine is suspended.
//!
//! In half of the worlds, relays know each other's identities. Calls then go from relay to relay in HTTP/2, and opaque
//! connections in tunnels: as over mutual TLS, but without TLS itself. In these worlds, the policies of the servers'
//! proxies change: they allow every caller, only the clients, or no caller.
//!
//! In some worlds, another Service (the mirror) gets copies of requests. In some worlds, the relays know nothing of the
//! mesh at first, and ask a control plane. The control plane answers late or never, and forgets the answers that the
//! relay does not use.
//!
//! The worlds have no TLS. The system tests cover it.
//!
//! Checked all the time:
//! - Each call ends exactly once, and not long after its deadline.
//! - Content arrives whole, in order and once, in both directions.
//! - A relay sends no call again that a server may have processed, unless it is an idempotent request of HTTP/1.
//! - Whatever their peers do, relays obey the protocol, their memory budget and their limits: on calls, attempts and
//!   connections, and on the length of queues and the time in them ([`leno_relay::Relay::exceeded_limit`]).
//! - A relay never has more streams open at a server than the server allows.
//! - While the policies of a relay deny every caller, the relay has no call in flight.
//! - A relay closes a connection in time if the connection drains or falls silent in the middle of a frame. The same
//!   applies if the connection has lost its place in a full listener to a newer connection.
//!
//! Checked in the end:
//! - No call hangs: an open call whose client has waited for 25 s is an error in every world, unless a server never
//!   answers that call.
//! - Every call has ended and is recorded once, even if it has reached no server and was not answered.
//! - While clients are still connected, a relay without calls holds nothing of earlier calls. Both sides of each
//!   connection count the same flow-control windows.
//! - If calls are traced, every call in the log has its trace, and the times of its attempts ascend.
//! - No call and no opaque connection is lost in a calm world: a world in which servers, limits and the machine gave no
//!   reason to lose a call. A server that answers a call early still gets the rest of the request.
//! - After the last call, each copy of a request at a well-behaved mirror is complete or cancelled, and the relay has
//!   read the response to the copy. Whatever the mirror does, no call of a client is lost.
//! - No opaque connection ends with an orderly close in the middle of its bytes. Every opaque connection whose client
//!   has received bytes is recorded.
//! - No request of a caller that the policies always deny has reached a server. No call is lost because of a change of
//!   policies, if the new policies allow the call.
//! - After the end of all connections, the tables of the relays are empty.
//!
//! Each seed is a world of its own. `LENO_SEED=7` repeats a world; `LENO_WORLDS=4000..100000` runs the worlds with
//! these seeds. If a world fails, the test leaves out the parts that the failure does not need. It prints the variables
//! that repeat the failure with the remaining parts: `LENO_SEED=7 LENO_WITHOUT=drains,changes` (see `parts.rs`).

mod arrival;
mod attack;
mod caller;
mod content;
mod control;
mod engine;
mod intruder;
mod line;
mod listener;
mod log;
mod mesh;
mod net;
mod parts;
mod pod;
mod proxy;
mod served;
mod server;
mod settings;
mod shell;
mod shorten;
mod speaker;
mod talker;
mod text_attack;
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
        match shorten::run(seed, parts) {
            Ok(world) => total.add(&world),
            Err(why) => {
                println!("{why}\nlooking for the parts that this needs");
                let (parts, why) = shorten::shorten(seed, parts, why);
                panic!("{why}\nthe same with fewer parts: LENO_SEED={seed} {parts}");
            }
        }
        worlds_run += 1;
    }
    let Total {
        calls,
        endings,
        steps,
        virtual_time,
        calm_worlds,
        hedges,
        settled_relays,
        compared_windows,
        guarded_worlds,
        denied,
        talks,
        whole_talks,
        tunnelled,
        copies,
        questions,
        forgotten,
    } = total;
    println!(
        "{worlds_run} worlds ({calm_worlds} calm), {calls} calls, {hedges} hedges, {endings:?}, {steps} steps, \
         {virtual_time:?}; {talks} opaque connections ({whole_talks} whole, {tunnelled} in tunnels); {denied} calls denied, \
         {copies} copies, {questions} questions ({forgotten} answers forgotten), \
         {guarded_worlds} worlds with denied intruders; {settled_relays} relays settled, windows of {compared_windows} connections compared"
    );
    // Check these shares only for a complete run. In a run of few worlds, or without some parts, the shares may be
    // small.
    if !leno_testing::is_repeated() && worlds_run >= 100 && parts == Parts::complete() {
        assert!(endings.answered > calls / 3, "{endings:?}: hardly any call is answered");
        assert!(calm_worlds > worlds_run / 10, "{calm_worlds} of {worlds_run}: hardly any world is calm");
        assert!(settled_relays > worlds_run / 2, "{settled_relays} in {worlds_run} worlds: hardly any relay settles");
        assert!(compared_windows > worlds_run / 2, "{compared_windows} in {worlds_run} worlds: hardly any is compared");
        assert!(whole_talks > talks / 3, "{whole_talks} of {talks}: hardly any opaque connection is whole");
        assert!(tunnelled > talks / 10, "{tunnelled} of {talks}: hardly any opaque connection is in a tunnel");
        assert!(denied > calls / 1_000, "{denied} of {calls}: hardly any call is denied");
        // In about one world of 160, policies deny all requests of intruders.
        assert!(
            worlds_run < 2_000 || guarded_worlds > worlds_run / 500,
            "{guarded_worlds} of {worlds_run}: hardly any intruder is denied"
        );
        assert!(copies > calls / 20, "{copies} of {calls}: hardly any request is copied");
        assert!(questions > worlds_run / 10, "{questions} in {worlds_run} worlds: hardly any relay asks");
        assert!(forgotten > worlds_run / 40, "{forgotten} in {worlds_run} worlds: hardly any answer is forgotten");
        assert!(hedges > calls / 1_000, "{hedges} of {calls}: hardly any call is hedged");
    }
}
