//! Helps the tests of every crate: [`skipped`] reports a test that could not run here, [`seed()`] and [`seeds`] make a
//! random test repeatable, [`Closing`] is a server that closes each connection after a request, and [`silent_ack()`] attacks
//! connection tracking. Only tests use this crate.
//!
//! ```
//! // LENO_SEED=7 in the environment makes this loop run once, with 7.
//! for seed in leno_testing::seeds(0..3) {
//!     assert!(seed < 3 || std::env::var_os("LENO_SEED").is_some());
//! }
//! ```
#![forbid(unsafe_code)]

mod closing;
mod seed;
mod silent_ack;
mod skip;

pub use closing::Closing;
pub use seed::{Seeds, is_repeated, seed, seeds};
pub use silent_ack::silent_ack;
pub use skip::skipped;
