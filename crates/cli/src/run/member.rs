//! A run's membership of the mesh: its number, its place on the network, and its files.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leno_model::spiffe::Workload;

use super::error::{Error, Result, io};
use super::files;
use super::hosts::hosts;
use super::manifests::{self, Endpoint, Name};
use super::mirror::{self, Mirror};
use super::network::{FIRST_RUN, Network};
use super::options::Options;
use super::state::State;
use crate::program;

/// The user that the proxies run as; it needs no line in /etc/passwd.
pub(super) const PROXY_UID: u32 = 2102;

/// How long the other proxies may take to notice that an endpoint is gone.
pub(super) const NOTICE_TIME: Duration = Duration::from_millis(300);

/// Where the mesh of a command line is.
pub(super) struct Mesh {
    pub(super) state: State,
    pub(super) network: Network,
}

impl Mesh {
    /// The mesh that the options name; its directory is made if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(options: &Options) -> Result<Self> {
        let network = Network { bridge: options.bridge.clone(), subnet: options.subnet };
        Ok(Self { state: State::open(&options.state)?, network })
    }

    /// Removes what runs left behind that were killed; returns how many they were.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub(super) fn clean(&self) -> Result<usize> {
        let _lock = self.state.lock()?;
        let dead: Vec<u16> = self.state.numbers()?.into_iter().filter(|run| self.state.is_dead(*run)).collect();
        dead.iter().try_for_each(|run| self.remove(*run))?;
        Ok(dead.len())
    }

    /// Removes a run, and with the last one what all share; whoever calls it holds the lock.
    fn remove(&self, run: u16) -> Result<()> {
        let manifests = self.state.manifests();
        manifests::remove_endpoint(&manifests, run)?;
        self.network.remove(run)?;
        let others: Vec<u16> = self.state.numbers()?.into_iter().filter(|other| *other != run).collect();
        let removing = || io(format!("removing manifests from {}", manifests.display()));
        if let Some(prefix) = self.state.config_prefix(run) {
            let is_shared = others.iter().any(|other| self.state.config_prefix(*other).as_ref() == Some(&prefix));
            if !is_shared {
                mirror::remove(&manifests, &prefix, |_| true).map_err(removing())?;
            }
        }
        self.state.forget(run)?;
        if others.is_empty() {
            mirror::remove(&manifests, manifests::SERVICE_PREFIX, |_| true).map_err(removing())?;
            self.network.remove_bridge()?;
        }
        Ok(())
    }
}

/// A run that is a member; dropping it removes it.
pub(super) struct Member<'a> {
    pub(super) mesh: &'a Mesh,
    /// The number of the run.
    pub(super) run: u16,
    /// The identity of its proxy.
    pub(super) workload: Workload,
    options: &'a Options,
    service: Name<'a>,
    mirrors: Vec<Mirror>,
    /// When the manifests were last read.
    manifests_read: Option<SystemTime>,
    _alive: File,
}

impl<'a> Member<'a> {
    /// Joins the mesh, without serving yet.
    ///
    /// # Errors
    /// When there is no address left, or the system refuses something; nothing is left behind then.
    pub(super) fn join(mesh: &'a Mesh, options: &'a Options, service: &'a str) -> Result<Self> {
        let subnet = options.subnet;
        let claimed = mesh.state.lock().and_then(|_lock| mesh.state.claim(FIRST_RUN, subnet.hosts()))?;
        let (run, alive) = claimed.ok_or(Error::SubnetFull { subnet, option: "--subnet" })?;
        let mut this = Self {
            mesh,
            run,
            workload: options.workload(service),
            options,
            service: Name { namespace: &options.namespace, name: service },
            mirrors: Vec::new(),
            manifests_read: None,
            _alive: alive,
        };
        this.set_up()?;
        Ok(this)
    }

    fn set_up(&mut self) -> Result<()> {
        let state = &self.mesh.state;
        let _lock = state.lock()?;
        self.mesh.network.add(self.run)?;
        let authority = match &self.options.issuer {
            Some(directory) => directory.clone(),
            None => self.shared_authority()?,
        };
        make_private(&self.issuer())?;
        self.mirrors.push(Mirror {
            from: authority,
            to: self.issuer(),
            prefix: String::new(),
            takes: |_| true,
            mode: files::PRIVATE,
            owner: Some(PROXY_UID),
        });
        if let Some(directory) = &self.options.config {
            let prefix = config_prefix(directory)?;
            state.set_config_prefix(self.run, &prefix)?;
            self.mirrors.push(Mirror {
                from: directory.clone(),
                to: state.manifests(),
                prefix,
                takes: files::is_manifest,
                mode: files::PUBLIC,
                owner: None,
            });
        }
        for mirror in &self.mirrors {
            mirror.refresh().map_err(io(format!("copying {}", mirror.from.display())))?;
        }
        let (manifests, subnet) = (state.manifests(), self.options.service_subnet);
        manifests::put_service(&manifests, self.service, &self.ports(), subnet)?;
        self.write_hosts()
    }

    /// The certificate authority of runs that name none, made by the first.
    fn shared_authority(&self) -> Result<PathBuf> {
        let directory = self.mesh.state.authority();
        if !directory.exists() {
            let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
            let out = directory.to_string_lossy();
            let args = ["ca", "init", "--trust-domain", self.options.trust_domain.as_str(), "--out", &out];
            program::run_path(&leno, &args, "")?;
        }
        Ok(directory)
    }

    /// Where the copies of the certificate authority's files are.
    pub(super) fn issuer(&self) -> PathBuf {
        self.mesh.state.run(self.run).join("issuer")
    }

    /// Where the run's /etc/hosts is.
    pub(super) fn hosts(&self) -> PathBuf {
        self.mesh.state.run(self.run).join("hosts")
    }

    /// Where the proxy writes its log.
    pub(super) fn proxy_log(&self) -> PathBuf {
        self.mesh.state.run(self.run).join("proxy.log")
    }

    /// The ports that the program serves.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.options.ports.iter().map(|port| port.get()).collect()
    }

    /// Takes in what changed: the copied directories, and the services of the mesh.
    pub(super) fn refresh(&mut self) {
        for mirror in &self.mirrors {
            // What cannot be read for a moment keeps its last copy.
            let _ = mirror.refresh();
        }
        let changed = fs::metadata(self.mesh.state.manifests()).and_then(|metadata| metadata.modified()).ok();
        if changed != self.manifests_read && self.write_hosts().is_ok() {
            self.manifests_read = changed;
        }
    }

    /// Tells the mesh that the program serves.
    ///
    /// # Errors
    /// When the manifest cannot be written.
    pub(super) fn publish(&self) -> Result<()> {
        let (service, workload, ports) = (self.service, &self.workload, &self.ports());
        let endpoint =
            Endpoint { run: self.run, service, address: self.mesh.network.address(self.run), workload, ports };
        let _lock = self.mesh.state.lock()?;
        manifests::put_endpoint(&self.mesh.state.manifests(), &endpoint)
    }

    /// Tells the mesh that the program serves no more; says whether it did.
    ///
    /// # Errors
    /// When the manifest cannot be removed.
    pub(super) fn withdraw(&self) -> Result<bool> {
        manifests::remove_endpoint(&self.mesh.state.manifests(), self.run)
    }

    /// In place, because what is mounted over /etc/hosts is this very file.
    fn write_hosts(&self) -> Result<()> {
        let services = manifests::services(&self.mesh.state.manifests())?;
        // A machine without the file has no lines of its own.
        let own_lines = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let text = hosts(&own_lines, &services, &self.options.namespace);
        let path = self.hosts();
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let write = || {
            fs::write(&path, &text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(files::PUBLIC))
        };
        write().map_err(io(format!("writing {}", path.display())))
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let removed = self.mesh.state.lock().and_then(|_lock| self.mesh.remove(self.run));
        if let Err(error) = removed {
            eprintln!("leno: {error}; leno run --clean tries again");
        }
    }
}

/// A directory that only the proxy may look into.
fn make_private(path: &Path) -> Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        chown(path, Some(PROXY_UID), Some(PROXY_UID))
    };
    make().map_err(io(format!("making the directory {}", path.display())))
}

/// One prefix for each directory, so that runs which bring the same one share its copies.
fn config_prefix(directory: &Path) -> Result<String> {
    let path = directory.canonicalize().map_err(io(format!("--config {}", directory.display())))?;
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    Ok(format!("config.{:016x}.", hasher.finish()))
}
