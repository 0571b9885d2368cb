//! On whose behalf a program runs.

use crate::program::{self, ProgramError};

/// A user's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    /// The primary group.
    pub(super) gid: u32,
    /// The other groups.
    pub(super) groups: Vec<u32>,
}

impl User {
    /// A user in a group of its own.
    pub(super) fn new(uid: u32) -> Self {
        Self { uid, gid: uid, groups: Vec::new() }
    }

    /// Whoever called sudo; `None` if nobody did, so that the program runs as we do.
    ///
    /// # Errors
    /// When `id` does not say which groups the user is in.
    pub(super) fn behind_sudo() -> Result<Option<Self>, ProgramError> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) else {
            return Ok(None);
        };
        let groups = program::run("id", &["-G", "--", &uid.to_string()], "")?;
        Ok(Some(Self { uid, gid, groups: groups.split_whitespace().filter_map(|gid| gid.parse().ok()).collect() }))
    }
}
