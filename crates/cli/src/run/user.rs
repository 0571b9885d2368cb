//! The user and the groups with which `leno run` executes the program or the proxy.

use crate::program::{self, ProgramError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The supplementary groups.
    pub(super) groups: Vec<u32>,
}

impl User {
    /// Returns the user `uid`, whose only group has the same id.
    pub(super) fn new(uid: u32) -> Self {
        Self { uid, gid: uid, groups: Vec::new() }
    }

    /// Returns the user who called sudo. `None` without sudo; the program then runs as the current user.
    ///
    /// # Errors
    /// If `id` does not report the user's groups.
    pub(super) fn behind_sudo() -> Result<Option<Self>, ProgramError> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) else {
            return Ok(None);
        };
        let groups = program::run("id", &["-G", "--", &uid.to_string()], "")?;
        Ok(Some(Self { uid, gid, groups: groups.split_whitespace().filter_map(|gid| gid.parse().ok()).collect() }))
    }
}
