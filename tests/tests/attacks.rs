//! Known attacks while well-behaved clients make calls. The attacks must not affect these clients. The servers behind
//! the proxy are strict: they close a connection that forwards abuse.
//!
//! Every attack lasts three seconds; an attacker whose connection was closed reconnects at once. `leno_tests::siege`
//! describes the measurement and its limits.

mod dribble;
mod floods;
mod header_blocks;
mod kernel;
mod memory;
mod resets;
mod slow;
mod unread;
