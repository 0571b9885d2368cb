//! Fortio's JSON, in the form that `fortio load -json` writes and `fortio report` shows.

mod document;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
pub(crate) use write::{DIR, save};
