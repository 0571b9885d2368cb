//! The engine from outside: one engine with bytes from a test, and two engines together.

mod differential;
mod endings;
mod endpoint;
mod exchanges;
mod http2;
mod pair;
mod pauses;
mod repeats;
mod smuggling;
mod splits;
mod tunnels;
