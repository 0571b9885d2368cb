//! The engine from outside: alone beside bytes that a test writes, and two of them together.

mod differential;
mod endings;
mod endpoint;
mod exchanges;
mod http2;
mod pair;
mod pauses;
mod smuggling;
mod splits;
mod tunnels;
