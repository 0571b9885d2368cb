//! The engine from outside: two of them together, one beside a peer that misbehaves, and one beside the h2 crate.

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
