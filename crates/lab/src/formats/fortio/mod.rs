//! Fortio's JSON, as `fortio load -json` writes it and `fortio report` shows it.

mod document;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
pub(crate) use write::{DIR, save};
