//! Tests of the engine's public interface. Some give one engine bytes; others connect two engines.

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
