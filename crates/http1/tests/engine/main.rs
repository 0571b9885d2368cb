//! The engine from outside: alone beside bytes that a test writes, and two of them together.

mod endpoint;
mod exchanges;
