//! `./release`: its files are reproducible, and a user can install them.
//!
//! Most tests share one release. For this machine's architecture, it has the programs under test (`LENO_PROGRAMS`). For
//! the other architecture, it has programs that are compiled quickly. `LENO_RELEASE_TWICE=1` also compiles all programs
//! twice, which takes more than ten minutes.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

use leno_tests::manifests::{Directory, Service};
use leno_tests::mesh::skipped;
use leno_tests::programs::{self, Server};
use leno_tests::proxy::{free_address, wait_for};
use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROGRAMS: [&str; 4] = ["leno", "leno-proxy", "leno-control", "leno-init"];
/// Longest time for a program to start on a busy machine, possibly under qemu.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two names of this machine's architecture: the name that Debian and images use, and the name that the kernel
/// uses.
const HERE: (&str, &str) = if cfg!(target_arch = "x86_64") { AMD64 } else { ARM64 };
/// The other architecture.
const ELSEWHERE: (&str, &str) = if cfg!(target_arch = "x86_64") { ARM64 } else { AMD64 };
const AMD64: (&str, &str) = ("amd64", "x86_64");
const ARM64: (&str, &str) = ("arm64", "aarch64");

/// A release and the programs in it. Most tests share one release.
struct Release {
    files: PathBuf,
    programs: PathBuf,
    /// The architectures for which the release has programs.
    architectures: Vec<&'static str>,
}

static RELEASE: LazyLock<Release> = LazyLock::new(|| {
    let programs = scratch("programs");
    let architectures = architectures();
    for &architecture in &architectures {
        let to = programs.join(architecture);
        if architecture == HERE.0 {
            copy_programs(&to);
        } else {
            compile(architecture, &to, &root().join("target/reproducible"));
        }
    }
    let files = scratch("files");
    succeed(&mut release(&files, &programs, &architectures));
    Release { files, programs, architectures }
});

#[test]
fn packing_the_same_programs_twice_gives_the_same_bytes() {
    let programs = scratch("small");
    for architecture in [HERE.0, ELSEWHERE.0] {
        // Use one small program under all names, because the test only checks the packing.
        let to = programs.join(architecture);
        fs::create_dir_all(&to).expect("a directory");
        let [leno, others @ ..] = PROGRAMS;
        strip("leno-init", &to.join(leno));
        for name in others {
            fs::copy(to.join(leno), to.join(name)).expect("a copy");
        }
    }
    let sums = ["first", "second"].map(|name| {
        let files = scratch(name);
        succeed(&mut release(&files, &programs, &[HERE.0, ELSEWHERE.0]));
        fs::read_to_string(files.join("SHA256SUMS")).expect("the checksums")
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].lines().count(), 12, "{}", sums[0]);
}

#[test]
fn programs_compiled_in_two_places_are_the_same() {
    if std::env::var_os("LENO_RELEASE_TWICE").is_none() {
        skipped("it takes more than ten minutes; LENO_RELEASE_TWICE=1 runs it");
        return;
    }
    for architecture in architectures() {
        let [first, second] = ["once", "twice"].map(|name| {
            let to = scratch(&format!("{name}-{architecture}"));
            compile(architecture, &to, &scratch(&format!("target-{name}")));
            to
        });
        for program in PROGRAMS {
            let same =
                fs::read(first.join(program)).expect("a program") == fs::read(second.join(program)).expect("a program");
            assert!(same, "{program} for {architecture} differs");
        }
    }
}

#[test]
fn a_version_without_a_section_in_the_changelog_is_refused() {
    let changelog = scratch("other.md");
    fs::write(&changelog, "# Changelog\n\n## [9.9.9]\n\n- Something.\n").expect("a changelog");
    let output = release(&scratch("refused"), Path::new("/nonexistent"), &[HERE.0])
        .env("CHANGELOG", &changelog)
        .output()
        .expect("./release starts");
    assert!(!output.status.success());
    let said = programs::text(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&format!("has no section for {VERSION}; its heading would be: ## [{VERSION}]")), "{said}");
}

#[test]
fn every_file_has_its_checksum() {
    let release = &*RELEASE;
    succeed(
        Command::new("sha256sum").args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&release.files),
    );
    let sums = fs::read_to_string(release.files.join("SHA256SUMS")).expect("the checksums");
    let files = fs::read_dir(&release.files).expect("the release").count();
    assert_eq!(sums.lines().count(), files - 1, "{sums}");
}

#[test]
fn install_sh_installs_from_a_server() {
    let release = &*RELEASE;
    let address = free_address();
    let (port, files) = (address.port().to_string(), release.files.to_str().expect("a path"));
    let _server = Server::start("python3", &["-m", "http.server", "--bind", "127.0.0.1", "--directory", files, &port]);
    wait_for("the server of the release listens", PATIENCE, || TcpStream::connect(address).ok());

    let prefix = scratch("prefix");
    let line = format!("curl -fsSL http://{address}/install.sh | sh -s -- http://{address}");
    let said = succeed(Command::new("sh").args(["-c", &line]).env("PREFIX", &prefix));
    assert!(said.contains(&format!("Leno {VERSION} is installed in {}/bin", prefix.display())), "{said}");
    starts(&prefix.join("bin"), None);
}

#[test]
fn install_sh_refuses_an_archive_that_was_changed() {
    let release = &*RELEASE;
    let (folder, prefix) = (scratch("tampered"), scratch("empty-prefix"));
    fs::create_dir_all(&folder).expect("a directory");
    let archive = format!("leno-{VERSION}-linux-{}.tar.gz", HERE.0);
    fs::copy(release.files.join("install.sh"), folder.join("install.sh")).expect("a copy");
    let mut bytes = fs::read(release.files.join(&archive)).expect("the archive");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(folder.join(&archive), bytes).expect("a copy with one bit changed");

    let output = Command::new("sh").arg(folder.join("install.sh")).env("PREFIX", &prefix).output().expect("sh starts");
    assert!(!output.status.success());
    let said = programs::text(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("it is damaged or was changed; nothing was installed"), "{said}");
    assert_eq!(fs::read_dir(prefix.join("bin")).expect("bin").count(), 0);
}

#[test]
fn install_sh_removes_its_temporary_files_when_a_signal_ends_it() {
    let (folder, prefix) = (scratch("interrupted"), scratch("interrupted-prefix"));
    let (work, bin) = (folder.join("tmp"), prefix.join("bin"));
    fs::create_dir_all(&work).and_then(|()| fs::create_dir_all(&bin)).expect("directories");
    // Prepare an installation that a signal interrupts. The file `.leno.new` represents a program that was copied but
    // not yet moved to its name. The script `curl` sends the signal during the download.
    fs::write(bin.join(".leno.new"), "").expect("a file");
    let curl = folder.join("curl");
    fs::write(&curl, "#!/bin/sh\nkill -s TERM $PPID\n").expect("a program");
    fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/install.sh");
    let mut sh = Command::new("sh");
    sh.arg(script).arg("http://127.0.0.1:1").envs([("PATH", path.as_ref()), ("TMPDIR", work.as_os_str())]);
    let output = sh.env("PREFIX", &prefix).output().expect("sh starts");
    assert_eq!(output.status.code(), Some(143), "{}", programs::text(&output));
    for directory in [work, bin] {
        assert_eq!(fs::read_dir(&directory).expect("it is there").count(), 0, "{}", directory.display());
    }
}

#[test]
fn debian_packages_install_into_an_empty_root() {
    let release = &*RELEASE;
    for &architecture in &release.architectures {
        let root = scratch(&format!("debian-{architecture}"));
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        fs::write(root.join("var/lib/dpkg/status"), "").expect("an empty database");
        let package = release.files.join(format!("leno_{VERSION}_{architecture}.deb"));
        succeed(
            Command::new("dpkg")
                .args(["--force-not-root", "--force-architecture", "--log=/dev/null"])
                .arg(format!("--root={}", root.display()))
                .arg("--install")
                .arg(package),
        );
        for program in PROGRAMS {
            let same = fs::read(root.join("usr/bin").join(program)).expect("a program")
                == fs::read(release.programs.join(architecture).join(program)).expect("a program");
            assert!(same, "{program}");
        }
        assert!(root.join("usr/share/doc/leno/copyright").is_file());
        if architecture == HERE.0 {
            starts(&root.join("usr/bin"), None);
        }
    }
}

#[test]
fn an_image_is_an_index_of_the_architectures() {
    let release = &*RELEASE;
    for name in ["leno", "leno-proxy", "leno-control"] {
        let image = scratch(&format!("image-{name}"));
        unpack(&release.files.join(format!("{name}-{VERSION}-image.tar")), &image);
        let blobs = image.join("blobs/sha256");
        for blob in fs::read_dir(&blobs).expect("blobs") {
            let path = blob.expect("a blob").path();
            let sum = succeed(Command::new("sha256sum").arg(&path));
            assert_eq!(sum.split(' ').next(), path.file_name().and_then(|name| name.to_str()));
        }
        let read = |digest: &Value| json(&blobs.join(digest.as_str().expect("a digest").trim_start_matches("sha256:")));

        let top = &json(&image.join("index.json"))["manifests"][0];
        assert_eq!(top["annotations"]["io.containerd.image.name"], format!("docker.io/library/{name}:{VERSION}"));
        if release.architectures.len() == 1 {
            continue;
        }
        assert_eq!(top["mediaType"], "application/vnd.oci.image.index.v1+json");
        let index = read(&top["digest"]);
        let manifests = index["manifests"].as_array().expect("manifests");
        let named: Vec<_> = manifests.iter().map(|manifest| manifest["platform"]["architecture"].clone()).collect();
        assert_eq!(named, release.architectures);
        for manifest in manifests {
            let config = read(&read(&manifest["digest"])["config"]["digest"]);
            assert_eq!(config["architecture"], manifest["platform"]["architecture"]);
        }
    }
}

#[test]
fn the_chart_is_packed_whole() {
    let chart = scratch("chart");
    unpack(&RELEASE.files.join(format!("leno-{VERSION}.tgz")), &chart);
    succeed(Command::new("diff").arg("--recursive").arg(root().join("charts/leno")).arg(chart.join("leno")));
}

#[test]
fn every_part_has_a_licence() {
    let release = &*RELEASE;
    let bill = json(&release.files.join(format!("leno-{VERSION}.cdx.json")));
    let licences =
        fs::read_to_string(release.files.join(format!("leno-{VERSION}-licences.txt"))).expect("the licences");
    let components = bill["components"].as_array().expect("components");
    for component in components {
        let (name, version) =
            (component["name"].as_str().expect("a name"), component["version"].as_str().expect("a version"));
        let licence = component["licenses"][0]["expression"].as_str().expect("a licence");
        assert_ne!(licence, "NOASSERTION", "{name}");
        if component["scope"] == "required" && component.get("purl").is_some() {
            assert!(licences.contains(&format!("\n{name} {version}: {licence}\n")), "{name} {version}: {licence}");
        }
    }
    let names: Vec<_> = components.iter().filter_map(|component| component["name"].as_str()).collect();
    assert!(["tokio", "rustls", "aws-lc-sys", "rust-std"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains(&"leno-tests"), "{names:?}");
}

#[test]
fn programs_for_the_other_architecture_start_and_relay_a_call() {
    let release = &*RELEASE;
    let qemu = format!("qemu-{}", ELSEWHERE.1);
    if !release.architectures.contains(&ELSEWHERE.0) {
        skipped(&missing(ELSEWHERE.0));
        return;
    }
    if Command::new(&qemu).arg("--version").output().is_err() {
        skipped(&format!("{qemu} is missing; type: apt-get install qemu-user"));
        return;
    }
    let there = release.programs.join(ELSEWHERE.0);
    starts(&there, Some(&qemu));

    let (server, outbound, admin) = (free_address(), free_address(), free_address());
    let _echo = Server::start("leno", &["echo", "--listen", &server.to_string(), "--name", "native"]);
    let directory = Directory::new(&[Service::echo(&[server])]);
    let _proxy = Server::start(
        &qemu,
        &[
            there.join("leno-proxy").to_str().expect("a path"),
            "--config",
            directory.path().to_str().expect("a path"),
            "--outbound",
            &outbound.to_string(),
            "--admin",
            &admin.to_string(),
        ],
    );
    wait_for("leno-proxy listens", PATIENCE, || TcpStream::connect(outbound).ok());
    wait_for("leno echo listens", PATIENCE, || TcpStream::connect(server).ok());
    let answer = programs::run_well(
        "grpcurl",
        &["-plaintext", "-authority", "echo.default:50051", &outbound.to_string(), "leno.echo.v1.Echo/Unary"],
        PATIENCE,
    );
    assert!(answer.contains(r#""server": "native""#), "{answer}");
}

/// Returns the architectures for which this machine can compile programs.
fn architectures() -> Vec<&'static str> {
    [HERE.0, ELSEWHERE.0]
        .into_iter()
        .filter(|&architecture| architecture == HERE.0 || missing(architecture).is_empty())
        .collect()
}

/// Returns the missing requirements of a build for this architecture; empty if this machine can build for it.
fn missing(architecture: &str) -> String {
    let asked = Command::new(root().join("packaging/programs"))
        .args(["--missing", architecture])
        .output()
        .expect("bash starts");
    programs::text(&asked).trim().to_owned()
}

/// Copies the programs under test, which are static if `./test` built them.
fn copy_programs(to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    PROGRAMS.iter().for_each(|name| strip(name, &to.join(name)));
}

fn strip(program: &str, to: &Path) {
    succeed(Command::new("strip").arg("-o").arg(to).arg(programs::program(program)));
}

fn compile(architecture: &str, to: &Path, target_dir: &Path) {
    let mut command = Command::new(root().join("packaging/programs"));
    succeed(command.arg(architecture).arg(to).env("PROFILE", "dev").env("TARGET_DIR", target_dir));
}

/// Returns the command `./release` for these programs. It accepts uncommitted changes in the checkout.
fn release(files: &Path, programs: &Path, architectures: &[&str]) -> Command {
    // Write a changelog for each release, because tests may run at the same time.
    let changelog = files.with_extension("changelog");
    fs::write(&changelog, format!("# Changelog\n\n## [{VERSION}]\n\n- Something.\n")).expect("a changelog");
    let mut command = Command::new(root().join("release"));
    command
        .arg(VERSION)
        .env("ARCHITECTURES", architectures.join(" "))
        .env("CHANGELOG", changelog)
        .env("RELEASE_DIRTY", "1")
        .env("RELEASE_OUT", files)
        .env("RELEASE_PROGRAMS", programs)
        // Programs with debug assertions are large, and the compression is not under test.
        .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    command
}

/// Checks that the programs of a directory start, directly or with an emulator.
fn starts(directory: &Path, emulator: Option<&str>) {
    for program in PROGRAMS {
        let path = directory.join(program);
        let mut command = emulator.map_or_else(|| Command::new(&path), Command::new);
        if emulator.is_some() {
            command.arg(&path);
        }
        let said = succeed(command.arg("--version"));
        assert_eq!(said.trim(), format!("{program} {VERSION}"));
    }
}

fn unpack(archive: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    succeed(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(to));
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn succeed(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = programs::text(&output);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// Returns an unused path in cargo's directory for tests.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release").join(name);
    if path.is_dir() {
        fs::remove_dir_all(&path).expect("an old directory can be removed");
    }
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    path
}
