//! Tests of the engine's public interface: two engines together, an engine with a misbehaving peer, and an engine with
//! the h2 crate.

mod bodies;
mod differential;
mod endings;
mod endpoint;
mod floods;
mod flow_control;
mod frames;
mod malformed;
mod messages;
mod pair;
mod patience;
mod settings;
mod violations;
