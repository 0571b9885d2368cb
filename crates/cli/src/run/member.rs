//! Lets a run join a mesh: claims its number, sets up its network, and writes its files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leno_identity::authority::Authority;
use leno_identity::directory::{BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, write_authority};
use leno_model::proxy;
use leno_model::spiffe::Workload;

use super::digest::digest;
use super::error::{Error, Result, io};
use super::files;
use super::hosts::hosts;
use super::manifests::{self, Endpoint, Name};
use super::mesh::Mesh;
use super::mirror::Mirror;
use super::network::FIRST_RUN;
use super::options::Options;
use super::running::Running;

/// Time within which the other proxies notice that an endpoint was removed.
pub(super) const NOTICE_TIME: Duration = Duration::from_millis(300);

/// A time longer than one tick of the clock from which the kernel takes the timestamps of files.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// A run that has joined the mesh. Dropping it removes the run.
pub(super) struct Member<'a> {
    pub(super) mesh: &'a Mesh,
    pub(super) run: u16,
    pub(super) workload: Workload,
    options: &'a Options,
    service: Name<'a>,
    mirrors: Vec<Mirror>,
    /// Whether the run has created its network namespace, so that it may remove it. Until then, a namespace with the
    /// same name may belong to another run.
    has_namespace: bool,
    manifests_read: Option<SystemTime>,
    _alive: File,
}

impl<'a> Member<'a> {
    /// Joins the mesh. The program becomes an endpoint only with [`Self::publish`].
    ///
    /// # Errors
    /// If no address is free, or the system refuses a step. All earlier steps are then undone.
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
            has_namespace: false,
            manifests_read: None,
            _alive: alive,
        };
        this.set_up()?;
        Ok(this)
    }

    fn set_up(&mut self) -> Result<()> {
        let state = &self.mesh.state;
        let _lock = state.lock()?;
        let network = &self.mesh.network;
        network.add_namespace(self.run)?;
        self.has_namespace = true;
        // Record the namespace at once: if this run is killed, a later run needs the namespace's name to remove the
        // namespace.
        let name = network.name(self.run);
        state.set_about(self.run, &Running::line(&name, self.service.namespace, self.service.name))?;
        network.connect(self.run)?;
        self.mirrors.push(self.issuer_mirror()?);
        if let Some(directory) = &self.options.config {
            self.mirrors.push(self.config_mirror(directory)?);
        }
        for mirror in &self.mirrors {
            mirror.refresh().map_err(io(format!("copying {}", mirror.from.display())))?;
        }
        let (ports, subnet) = (self.ports(), self.options.service_subnet);
        if !ports.is_empty() {
            manifests::put_service(&state.manifests(), self.service, &ports, subnet)?;
        }
        self.write_hosts()
    }

    /// Makes copies of the authority's files that belong to the proxy's user, because only the owner of a key file may
    /// read it.
    fn issuer_mirror(&self) -> Result<Mirror> {
        let from = match &self.options.issuer {
            Some(directory) => directory.clone(),
            None => self.shared_authority()?,
        };
        make_private(&self.issuer())?;
        Ok(Mirror {
            from,
            to: self.issuer(),
            prefix: String::new(),
            takes: is_of_authority,
            mode: files::PRIVATE,
            owner: Some(proxy::UID),
        })
    }

    fn config_mirror(&self, directory: &Path) -> Result<Mirror> {
        let state = &self.mesh.state;
        let prefix = config_prefix(directory)?;
        state.set_config_prefix(self.run, &prefix)?;
        Ok(Mirror {
            from: directory.to_owned(),
            to: state.manifests(),
            prefix,
            takes: files::is_manifest,
            mode: files::PUBLIC,
            owner: None,
        })
    }

    /// Returns the directory of the authority for runs without --issuer; the first such run creates the authority.
    fn shared_authority(&self) -> Result<PathBuf> {
        let directory = self.mesh.state.authority();
        if !directory.exists() {
            let making = || format!("making the certificate authority {}", directory.display());
            let authority = Authority::create(self.options.trust_domain.clone(), SystemTime::now());
            let authority = authority.map_err(|error| io(making())(std::io::Error::other(error)))?;
            write_authority(&directory, &authority)?;
        }
        Ok(directory)
    }

    /// Directory with the copies of the authority's files.
    pub(super) fn issuer(&self) -> PathBuf {
        self.mesh.state.run(self.run).join("issuer")
    }

    pub(super) fn hosts(&self) -> PathBuf {
        self.mesh.state.run(self.run).join("hosts")
    }

    /// The file of the proxy's log: [`Member::kept_log`], or a file that is removed with the run.
    pub(super) fn proxy_log(&self) -> PathBuf {
        let own = || self.mesh.state.run(self.run).join("proxy.log");
        self.kept_log().map_or_else(own, Path::to_owned)
    }

    /// The file of --proxy-log, if given.
    pub(super) fn kept_log(&self) -> Option<&Path> {
        self.options.proxy_log.as_deref()
    }

    /// The arguments that the user gave for the proxy.
    pub(super) fn proxy_args(&self) -> &[OsString] {
        &self.options.proxy_args
    }

    /// The program's name, as the user wrote it.
    pub(super) fn program(&self) -> &str {
        self.options.program.first().and_then(|program| program.to_str()).unwrap_or("the program")
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.options.ports.iter().map(|port| port.get()).collect()
    }

    /// Updates the copies of the authority and of the --config directory, and writes the mesh's current services to the
    /// hosts file.
    pub(super) fn refresh(&mut self) {
        for mirror in &self.mirrors {
            // Ignore an error: if a directory cannot be read now, keep the copies from the last refresh.
            let _ = mirror.refresh();
        }
        let changed = fs::metadata(self.mesh.state.manifests()).and_then(|metadata| metadata.modified()).ok();
        if changed != self.manifests_read && self.write_hosts().is_ok() {
            // Remember the timestamp only once its clock tick has passed, and read again until then: another change
            // within the same tick would have the same timestamp.
            let is_past = |at: &SystemTime| at.elapsed().is_ok_and(|since| since > CLOCK_STEP);
            self.manifests_read = changed.filter(is_past);
        }
    }

    /// Makes the program an endpoint of its service, so that other programs can call it.
    ///
    /// # Errors
    /// If the manifest cannot be written.
    pub(super) fn publish(&self) -> Result<()> {
        let (service, workload, ports) = (self.service, &self.workload, &self.ports());
        let endpoint =
            Endpoint { run: self.run, service, address: self.mesh.network.address(self.run), workload, ports };
        let _lock = self.mesh.state.lock()?;
        manifests::put_endpoint(&self.mesh.state.manifests(), &endpoint)
    }

    /// Removes the program from the endpoints of its service; returns whether it was an endpoint.
    ///
    /// # Errors
    /// If the manifest cannot be removed.
    pub(super) fn withdraw(&self) -> Result<bool> {
        manifests::remove_endpoint(&self.mesh.state.manifests(), self.run)
    }

    /// Rewrites the hosts file in place. A new file would have no effect, because the mount over /etc/hosts refers to
    /// the inode of the old one.
    fn write_hosts(&self) -> Result<()> {
        let services = manifests::services(&self.mesh.state.manifests())?;
        // Ignore a missing /etc/hosts: the machine then has no names of its own.
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
        let remove = if self.has_namespace { Mesh::remove } else { Mesh::forget };
        let removed = self.mesh.state.lock().and_then(|_lock| remove(self.mesh, self.run));
        if let Err(error) = removed {
            eprintln!("leno: {error}; leno run --clean tries again");
        }
    }
}

/// Creates a directory that only the proxy's user may read.
fn make_private(path: &Path) -> Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        chown(path, Some(proxy::UID), Some(proxy::UID))
    };
    make().map_err(io(format!("making the directory {}", path.display())))
}

/// Whether this is a file of the authority that a proxy needs to get an identity.
fn is_of_authority(path: &Path) -> bool {
    [CERTIFICATE_FILE, KEY_FILE, BUNDLE_FILE].into_iter().any(|name| path.file_name().is_some_and(|own| own == name))
}

/// Returns the prefix of the names of the copies of a --config directory. It depends only on the directory, so that
/// runs with the same directory share the copies.
fn config_prefix(directory: &Path) -> Result<String> {
    let path = directory.canonicalize().map_err(io(format!("--config {}", directory.display())))?;
    Ok(format!("config.{:016x}.", digest(path.as_os_str().as_encoded_bytes())))
}
