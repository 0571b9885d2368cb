//! A mesh on one machine: workloads in separate network namespaces, connected by a bridge.
//!
//! ```text
//! switch (namespace) ── br0 10.66.0.1, fd00:66::1 ── capture
//!    ├── web    (namespace) eth0 10.66.0.2, fd00:66::2: leno-proxy as user 2102, and any program
//!    └── client (namespace) eth0 10.66.0.3, fd00:66::3: ...
//! ```
//!
//! A [`Workload`] starts outside of the mesh; [`Workload::join`] starts its proxy and redirects its connections. All
//! proxies read one directory of manifests, to which [`Mesh::apply`] writes, and get their certificates from one
//! authority. Every [`MeshService`] has addresses that lead to no machine, and /etc/hosts of all namespaces contains
//! its name.
//!
//! Each namespace also has its own process ids and mounts. When its first process ends, the kernel kills every process
//! in it, including daemons. The first process ends when the thread that created the namespace ends, so a test that
//! panics or is killed leaves nothing behind.

pub mod capture;
pub mod namespace;
pub mod service;
pub mod workload;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use capture::{Capture, Frames};
pub(crate) use capture::{LAST, TCPDUMP};
pub use leno_testing::skipped;
pub use namespace::{Namespace, Program};
pub use service::MeshService;
pub use workload::Workload;

use crate::programs;
use crate::proxy::wait_for;

/// The user id of the proxies. It needs no entry in /etc/passwd.
pub const PROXY_UID: u32 = 2102;
/// The trust domain of all workloads.
pub const TRUST_DOMAIN: &str = "test.example";
/// Longest time for any step in creating a mesh.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The bridge, the manifests and the certificate authority. Drop this value after the workloads.
#[derive(Debug)]
pub struct Mesh {
    switch: Namespace,
    directory: tempfile::TempDir,
    workloads: Cell<u8>,
    services: RefCell<Vec<String>>,
}

impl Mesh {
    /// Creates a mesh without workloads. Returns `None`, with a message, unless this process runs as root.
    ///
    /// # Panics
    /// If root cannot create the mesh.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("network namespaces need root; type: sudo ./test system");
            return None;
        }
        let directory = tempfile::tempdir().expect("a writable temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("the directory is ours");
        fs::create_dir(directory.path().join("manifests")).expect("the directory is ours");
        let hosts = directory.path().join("hosts");
        fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost\n").expect("the directory is ours");
        let switch = Namespace::new(&hosts);
        switch.run_well(
            "sh",
            &[
                "-ec",
                "ip link add br0 type bridge
                ip address add 10.66.0.1/16 dev br0
                ip link set br0 up
                ip route add 224.0.0.0/4 dev br0",
            ],
        );
        let this = Self { switch, directory, workloads: Cell::new(0), services: RefCell::default() };
        let authority = this.authority();
        let out = authority.to_str().expect("temporary directories have plain names");
        programs::run_well("leno", &["ca", "init", "--trust-domain", TRUST_DOMAIN, "--out", out], TIMEOUT);
        give_to_proxies(&authority);
        Some(this)
    }

    /// Creates a workload outside of the mesh, with a service account of the same name.
    pub fn workload(&self, name: &str) -> Workload {
        self.workloads.set(self.workloads.get() + 1);
        let namespace = Namespace::new(&self.hosts());
        Workload::new(self, name, self.workloads.get() + 1, namespace)
    }

    /// Creates a workload whose proxy runs with these additional arguments.
    pub fn meshed(&self, name: &str, arguments: &[&str]) -> Workload {
        let mut workload = self.workload(name);
        workload.join(arguments);
        workload
    }

    /// Writes the manifests of a Service, and waits until `proxies` have read them.
    pub fn serve(&self, service: &MeshService<'_>, proxies: &[&Workload]) {
        let name = service.name();
        if !self.services.borrow().iter().any(|known| known == name) {
            self.services.borrow_mut().push(name.to_owned());
            let mut hosts = fs::OpenOptions::new().append(true).open(self.hosts()).expect("the file is ours");
            for address in service.cluster_ips() {
                writeln!(hosts, "{address} {name} {name}.default {name}.default.svc.cluster.local")
                    .expect("the file is ours");
            }
        }
        self.apply(name, &service.to_yaml(), proxies);
    }

    /// Writes the manifest `name`, and waits until `proxies` have read it without a problem.
    pub fn apply(&self, name: &str, yaml: &str, proxies: &[&Workload]) {
        let before: Vec<f64> = proxies.iter().map(|proxy| proxy.reloads("success")).collect();
        // Write the file elsewhere and then rename it, so that no proxy reads half a file.
        let (aside, place) = (self.directory.path().join(name), self.manifests().join(format!("{name}.yaml")));
        fs::write(&aside, yaml).and_then(|()| fs::rename(&aside, &place)).expect("the directory is ours");
        for (proxy, before) in proxies.iter().zip(before) {
            wait_for(&format!("{} reads {name}", proxy.name()), TIMEOUT, || {
                assert!(proxy.reloads("failure") == 0.0, "{}:\n{yaml}", proxy.log());
                (proxy.reloads("success") > before).then_some(())
            });
        }
    }

    /// The directory of the certificate authority, as `leno ca init` makes it.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca")
    }

    /// The directory of the proxies' manifests.
    pub fn manifests(&self) -> PathBuf {
        self.directory.path().join("manifests")
    }

    /// A directory for tests' own files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The namespace of the bridge, through which all frames go.
    pub fn switch(&self) -> &Namespace {
        &self.switch
    }

    fn hosts(&self) -> PathBuf {
        self.directory.path().join("hosts")
    }
}

/// Makes a certificate authority's files readable to proxies only.
pub fn give_to_proxies(authority: &Path) {
    let files = fs::read_dir(authority).expect("leno ca init made it").map(|entry| entry.expect("an entry").path());
    for path in files.chain([authority.to_owned()]) {
        chown(path, Some(PROXY_UID), Some(PROXY_UID)).expect("root may");
    }
}

/// Returns whether a program is installed. If not, prints that the test is skipped.
pub fn is_installed(program: &str, debian_package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = programs::program(program).is_file()
        || std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !is_there {
        skipped(&format!("{program} is not there; type: apt-get install {debian_package}"));
    }
    is_there
}
