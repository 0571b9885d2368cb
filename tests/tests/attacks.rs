//! Known attacks beside good clients, who must not notice; the servers behind the proxy are strict ones.
//!
//! Every attack goes on for three seconds; an attacker that is sent away comes back at once. See
//! `leno_tests::siege` for what is measured and how much may be lost.

mod dribble;
mod floods;
mod header_blocks;
mod memory;
mod resets;
mod slow;
mod unread;
