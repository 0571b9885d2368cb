//! The commands of examples/mesh/README.md, typed word for word.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leno_tests::mesh::{is_installed, skipped};
use leno_tests::proxy::wait_for;
use leno_tests::{namespaces, programs};

const PATIENCE: Duration = Duration::from_secs(30);
const WEB: &str = "spiffe://cluster.local/ns/shop/sa/web";

#[test]
fn the_readme_of_the_mesh_works_word_for_word() {
    if !rustix::process::geteuid().is_root() {
        return skipped("the capture needs root; type: sudo ./test system");
    }
    let needed = [("python3", "python3"), ("curl", "curl"), ("tcpdump", "tcpdump"), ("ip", "iproute2")];
    if needed.iter().all(|(program, package)| is_installed(program, package)) {
        namespaces::run_test_inside("mesh::example::is_typed", &[]);
    }
}

#[ignore = "runs inside the namespaces that the other test makes"]
#[test]
fn is_typed() {
    let readme = fs::read_to_string(repository().join("examples/mesh/README.md")).expect("the README is there");
    // The programs under test may be in another directory than target/release, so replace the path in the commands.
    let leno = programs::program("leno");
    let readme = readme.replace("target/release/leno", leno.to_str().expect("text"));
    let own = tempfile::tempdir().expect("a writable temporary directory");
    let mut terminals = [1, 2, 3].map(|number| Terminal::open(number, own.path()));
    let blocks = blocks(&readme);
    assert_eq!(blocks.len(), 6, "{blocks:#?}");

    // Leave the servers of the first two blocks running, because the next commands call them.
    for (block, says) in blocks.iter().take(2).zip(["cart serves", "Serving HTTP"]) {
        let terminal = &mut terminals[block.terminal - 1];
        terminal.type_in(&block.commands);
        terminal.wait_for(says);
    }
    for name in ["cart", "catalog"] {
        let manifest = format!("/run/leno/manifests/endpoint.{}.yaml", if name == "cart" { 2 } else { 3 });
        wait_for("the endpoint is published", PATIENCE, || Path::new(&manifest).exists().then_some(()));
    }
    let said: Vec<String> = blocks.iter().skip(2).map(|block| terminals[2].run(&block.commands)).collect();
    let [calls, capture, who, strangers] = &said[..] else { panic!("four blocks: {said:#?}") };

    assert!(calls.contains(r#""server": "cart""#) && calls.contains("a chair, a table and a lamp"), "{calls}");
    let mut captured: Vec<&str> = capture.lines().collect();
    // The capture may contain a retransmitted frame twice.
    captured.dedup();
    assert_eq!(captured, ["0", "50051.leno.internal", "8080.leno.internal"]);
    assert!(who.contains(&format!("client_id=\"{WEB}\"")), "{who}");
    for log in ["out/cart.log:", "out/catalog.log:"] {
        let names_web = |line: &str| line.starts_with(log) && line.contains(&format!(r#""client_id":"{WEB}""#));
        assert!(who.lines().any(names_web), "{log} {who}");
    }
    assert!(strangers.starts_with("a chair, a table and a lamp\n"), "{strangers}");
    assert!(strangers.contains("PermissionDenied") && strangers.ends_with("\n1\n"), "{strangers}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Commands that the test types into one terminal at once.
#[derive(Debug)]
struct Block {
    terminal: usize,
    commands: String,
}

/// Returns the indented blocks of a page. The first line of each block has the number of its terminal.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("    ")) {
        if let Some(number) = line.strip_prefix("# terminal ") {
            let terminal = number.parse().expect("a number of a terminal");
            blocks.push(Block { terminal, commands: String::new() });
        } else {
            let block = blocks.last_mut().expect("a block begins with its terminal");
            block.commands.push_str(line);
            block.commands.push('\n');
        }
    }
    blocks
}

/// A shell that receives typed commands.
struct Terminal {
    number: usize,
    shell: Child,
    output: PathBuf,
}

impl Terminal {
    /// Starts a shell in the repository; its output goes to a file in `directory`.
    fn open(number: usize, directory: &Path) -> Self {
        // The test runs as root already, so replace sudo.
        let sudo = directory.join("sudo");
        fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("the directory is ours");
        fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        let tools = programs::program("grpcurl").parent().map(Path::to_owned).unwrap_or_default();
        let path = std::env::var("PATH").expect("there is a PATH");
        let path = format!("{}:{}:{path}", directory.display(), tools.display());
        let output = directory.join(format!("terminal-{number}"));
        let file = fs::File::create(&output).expect("the directory is ours");
        let shell = Command::new("bash")
            .current_dir(repository())
            .env("PATH", path.trim_end_matches(':'))
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("the file is open"))
            .stderr(file)
            .spawn()
            .expect("bash runs");
        Self { number, shell, output }
    }

    fn type_in(&mut self, commands: &str) {
        let input = self.shell.stdin.as_mut().expect("it is piped");
        input.write_all(commands.as_bytes()).expect("the shell reads it");
    }

    /// Types commands, and returns their output.
    fn run(&mut self, commands: &str) -> String {
        let begin = self.text().len();
        self.type_in(commands);
        self.type_in("echo THE END\n");
        let said = || self.text().get(begin..)?.strip_suffix("THE END\n").map(str::to_owned);
        wait_for(&format!("{commands} ends in terminal {}", self.number), PATIENCE, said)
    }

    fn wait_for(&self, text: &str) {
        wait_for(&format!("{text} in terminal {}", self.number), PATIENCE, || self.text().contains(text).then_some(()));
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).expect("the file is ours")).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell's children need no kill: they end with the namespaces.
        self.shell.kill().ok();
        self.shell.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- terminal {} ---\n{}\n---", self.number, self.text());
        }
    }
}
