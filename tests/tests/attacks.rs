//! Known attacks beside well-behaved clients, which must not be affected; the servers behind the proxy are strict.
//!
//! Every attack lasts three seconds; an attacker reconnects at once. See `leno_tests::siege` for the measurement and
//! the allowed losses.

mod dribble;
mod floods;
mod header_blocks;
mod memory;
mod resets;
mod slow;
mod unread;
