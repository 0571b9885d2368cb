//! The text of Kubernetes objects: read as kubectl reads it, written so that every reader understands the same.
//!
//! [`split()`] finds the documents of a file and keeps the text of each, so that an unchanged document is written byte
//! for byte. [`edit()`] changes a document in its text, and keeps the comments; [`write()`] writes a document anew.

mod edit;
mod read;
mod scalar;
mod split;
mod write;

pub use edit::edit;
pub use read::{Fault, read};
pub use split::{Document, split};
pub use write::write;
