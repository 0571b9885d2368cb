//! The text of Kubernetes objects: read as kubectl reads it, written so that every reader agrees.
//!
//! [`split()`] finds the documents of a file and leaves each one's text alone, so that what is not changed can go out as it
//! came in; [`write()`] is for what is.

mod read;
mod scalar;
mod split;
mod write;

pub use read::{Fault, read};
pub use split::{Document, split};
pub use write::write;
