//! Loads, removes and shows the rules. Sends rules for nf_tables directly to the kernel; loads rules for ip_tables with
//! the program iptables.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use leno_intercept::{TABLE, kernel};
use leno_lab::child::find_program;
use rustix::thread::{CapabilitySet, capabilities};

use super::Error;
use super::iptables::{self, Family};
use super::options::{Choice, Options};
use crate::program::{self, ProgramError};

/// A mechanism that loads the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    /// nf_tables in the kernel. Only showing the rules needs the program nft.
    Nft,
    /// iptables-legacy and ip6tables-legacy.
    IptablesLegacy,
    /// iptables and ip6tables, in whichever variant the machine has under these names.
    Iptables,
}

const ALL: [Backend; 3] = [Backend::Nft, Backend::IptablesLegacy, Backend::Iptables];

/// Loads the rules with the first allowed backend that works, and removes rules that other backends loaded earlier.
///
/// # Errors
/// If the caller lacks the permission, or no allowed backend works.
pub(super) fn up(options: &Options) -> Result<(), Error> {
    need_permission()?;
    let mut failures = Vec::new();
    for &backend in allowed(options.backend) {
        match backend.load(options) {
            Ok(()) => return remove_others(backend),
            Err(error) => failures.push(error),
        }
    }
    Err(none_works(failures))
}

/// Removes the rules that backends other than `loaded` have loaded. Warns of a backend whose rules cannot be read: the
/// rules of `loaded` are in force nevertheless.
fn remove_others(loaded: Backend) -> Result<(), Error> {
    let mut removed = Ok(());
    for other in ALL.into_iter().filter(|other| !other.is_same(loaded)) {
        match other.remove() {
            Err(error @ Error::Unreadable { .. }) => {
                eprintln!("leno: the rules are loaded, but older rules may be in force too: {error}");
            }
            outcome => removed = removed.and(outcome),
        }
    }
    removed
}

/// Returns the error to report if every backend failed. Reports a missing program only if all failures are missing
/// programs, and then only the first.
fn none_works(mut failures: Vec<Error>) -> Error {
    let is_missing = |failure: &Error| matches!(failure, Error::Program(ProgramError::Missing { .. }));
    if failures.iter().all(is_missing) {
        return failures.swap_remove(0);
    }
    let refusals = failures.iter().filter(|failure| !is_missing(failure)).map(ToString::to_string);
    Error::NoBackend(refusals.collect::<Vec<_>>().join("; "))
}

/// Removes the rules of all backends.
///
/// # Errors
/// If the caller lacks the permission, or a backend fails to remove its rules.
pub(super) fn down() -> Result<(), Error> {
    need_permission()?;
    // Go on with the other backends even if one of them fails.
    ALL.into_iter().map(Backend::remove).fold(Ok(()), Result::and)
}

/// The rules in force, in the notation of the backend that loaded them.
///
/// # Errors
/// If the caller lacks the permission.
pub(super) fn show() -> Result<String, Error> {
    need_permission()?;
    let mut shown = if kernel::is_loaded()? { nft_rules() } else { String::new() };
    for backend in [Backend::IptablesLegacy, Backend::Iptables] {
        for family in families() {
            let program = backend.program(family);
            // Writing to a String cannot fail.
            let _ = match backend.save(family) {
                Ok(saved) => {
                    iptables::rules(&saved).try_for_each(|(table, rule)| writeln!(shown, "{program} -t {table} {rule}"))
                }
                Err(error) => writeln!(shown, "# {error}"),
            };
        }
    }
    if shown.is_empty() {
        shown.push_str("no connections are intercepted here; leno intercept up starts it\n");
    }
    Ok(shown)
}

/// Formats the rules without loading them, which needs no permission. Uses the notation of the first allowed backend
/// that is installed (nf_tables always is, because it needs no program), or of the first allowed backend if none is.
pub(super) fn preview(options: &Options) -> String {
    let can_load =
        |backend: &&Backend| **backend == Backend::Nft || find_program(backend.program(Family::V4)).is_some();
    let backends = allowed(options.backend);
    let backend = backends.iter().find(can_load).or(backends.first()).copied().unwrap_or(Backend::Nft);
    match backend {
        Backend::Nft => format!("# nft -f -\n{}", leno_intercept::description(&options.redirection)),
        _ => families()
            .map(|family| {
                let rules = iptables::up(&options.redirection, family, "");
                format!("# {}-restore --noflush\n{rules}", backend.program(family))
            })
            .collect(),
    }
}

fn allowed(choice: Choice) -> &'static [Backend] {
    match choice {
        Choice::Nft => &[Backend::Nft],
        Choice::Iptables => &[Backend::IptablesLegacy, Backend::Iptables],
        Choice::Auto => &ALL,
    }
}

impl Backend {
    fn load(self, options: &Options) -> Result<(), Error> {
        if self == Self::Nft {
            return Ok(kernel::load(&options.redirection)?);
        }
        for family in families() {
            if let Err(error) = self.load_family(options, family) {
                // If the rules of IPv4 or IPv6 cannot be loaded, remove the rules of the other family too: otherwise
                // only a part of the connections would pass the proxy. Report why loading failed, even if removing also
                // fails.
                let _ = self.remove();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Loads the rules of one family with iptables.
    fn load_family(self, options: &Options, family: Family) -> Result<(), Error> {
        let rules = iptables::up(&options.redirection, family, &self.save(family)?);
        Ok(restore(self.program(family), &rules)?)
    }

    fn remove(self) -> Result<(), Error> {
        if self == Self::Nft {
            // A kernel without nf_tables has nothing to remove.
            return if kernel::is_loaded()? { Ok(kernel::unload()?) } else { Ok(()) };
        }
        for family in families() {
            if let Some(removal) = iptables::down(&self.save(family)?) {
                restore(self.program(family), &removal)?;
            }
        }
        Ok(())
    }

    /// Returns the output of iptables-save. Returns empty text if the backend cannot have loaded rules: the machine has
    /// no iptables-restore, or the kernel has none of the tables.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    fn save(self, family: Family) -> Result<String, Error> {
        let program = self.program(family);
        if find_program(&format!("{program}-restore")).is_none() {
            return Ok(String::new());
        }
        let none: [&str; 0] = [];
        match program::run(&format!("{program}-save"), &none, "") {
            Ok(saved) => Ok(saved),
            // The variant for nf_tables fails if the kernel has no nf_tables. The legacy variant prints nothing if the
            // kernel has no ip_tables.
            Err(_) if self.is_for_nf_tables() && !kernel::has_nf_tables()? => Ok(String::new()),
            Err(source) => Err(Error::Unreadable { program, source }),
        }
    }

    /// Whether two backends run the same program: on some machines, iptables is a link to iptables-legacy.
    fn is_same(self, other: Self) -> bool {
        self == other || self.file().is_some_and(|own| other.file() == Some(own))
    }

    /// Whether the backend may be iptables' variant for nf_tables. The program may also be a script that calls one of
    /// the variants.
    fn is_for_nf_tables(self) -> bool {
        // Releases before 1.8 have only the variant for ip_tables, and call it xtables-multi.
        let is_legacy = |file: PathBuf| file.ends_with("xtables-legacy-multi") || file.ends_with("xtables-multi");
        self == Self::Iptables && !self.file().is_some_and(is_legacy)
    }

    /// The executable of the backend's program for IPv4, without symbolic links.
    fn file(self) -> Option<PathBuf> {
        find_program(self.program(Family::V4)).and_then(|path| path.canonicalize().ok())
    }

    fn program(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Nft, _) => "nft",
            (Self::IptablesLegacy, Family::V4) => "iptables-legacy",
            (Self::IptablesLegacy, Family::V6) => "ip6tables-legacy",
            (Self::Iptables, Family::V4) => "iptables",
            (Self::Iptables, Family::V6) => "ip6tables",
        }
    }
}

/// The address families that the kernel supports.
fn families() -> impl Iterator<Item = Family> {
    let has_v6 = Path::new("/proc/net/if_inet6").exists();
    [Family::V4, Family::V6].into_iter().filter(move |family| *family == Family::V4 || has_v6)
}

/// Our table in nft's notation, or a comment line with the reason why nft cannot show it.
fn nft_rules() -> String {
    let shown = program::run("nft", &["list", "table", "inet", TABLE], "");
    shown.unwrap_or_else(|error| format!("# the table inet {TABLE} is in force, but cannot be shown: {error}\n"))
}

/// Loads rules with iptables-restore. Passes `--wait`, because another program may hold iptables' lock.
fn restore(program: &str, rules: &str) -> Result<(), ProgramError> {
    program::run(&format!("{program}-restore"), &["--noflush", "--wait", "5"], rules).map(drop)
}

fn need_permission() -> Result<(), Error> {
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    if may { Ok(()) } else { Err(Error::NotPermitted) }
}
