//! Real servers on a port without a declared protocol: MariaDB, PostgreSQL, NATS, SSH and SMTP. Most of them speak
//! first.

use std::path::Path;
use std::time::{Duration, Instant};

use leno_tests::mesh::{MeshService, Program, is_installed};
use leno_tests::programs::{self, text};

use super::Pair;
use super::databases::{postgres_programs, start_postgres};

/// A port that no protocol uses by default.
const PORT: u16 = 7_001;
/// Longest time for a whole conversation. The proxies wait half a second for a client to speak
/// (`server_first_after_ms`), and the rest of the time is for the programs' start on a busy machine. The limit is below
/// ten seconds (`detect_timeout_ms`), so that a conversation that waits for this timeout fails.
const CONVERSATION_MAX: Duration = Duration::from_secs(9);

/// Creates a client and a server of the Service `remote`, if the needed programs are installed. `needed` has each
/// program with its Debian package.
fn pair(needed: &[(&str, &str)]) -> Option<Pair> {
    if !needed.iter().all(|(program, package)| is_installed(program, package)) {
        return None;
    }
    Pair::new(|server| MeshService::new("remote", PORT).at(server))
}

/// Starts the server with a shell command, in the mesh's directory.
fn serve(pair: &Pair, shell: &str) -> Program {
    let directory = pair.mesh.directory().display();
    let server = pair.server.start("sh", &["-c", &format!("cd {directory} && exec {shell}")]);
    pair.server.wait_for_port(PORT);
    server
}

/// Runs the client's shell command twice, and checks its output and its time.
fn assert_converses(pair: &Pair, shell: &str, expected: &str) {
    for _ in 0..2 {
        let began = Instant::now();
        let output = pair.client.run("bash", &["-c", &format!("cd {}; {shell}", pair.mesh.directory().display())]);
        let took = began.elapsed();
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", text(&output));
        assert!(took < CONVERSATION_MAX, "{took:?}");
    }
    pair.assert_encrypted();
}

fn in_directory(pair: &Pair, shell: &str) {
    let directory = pair.mesh.directory().to_str().expect("a plain name");
    programs::run_well("sh", &["-ec", &format!("cd {directory}; {shell}")], Duration::from_secs(60));
}

#[test]
fn mariadb_greets_its_client() {
    let packages = [("mariadbd", "mariadb-server-core"), ("mariadb", "mariadb-client-core")];
    let Some(pair) = pair(&packages) else { return };
    in_directory(
        &pair,
        "mkdir database && mariadb-install-db --no-defaults --datadir=$PWD/database --user=root --skip-test-db \
         --auth-root-authentication-method=normal >install.log 2>&1 || (cat install.log; exit 1)
         echo \"CREATE USER guest;\" >users.sql",
    );
    let _server = serve(
        &pair,
        &format!(
            "mariadbd --no-defaults --user=root --datadir=$PWD/database --socket=$PWD/mysql.sock --port={PORT} \
             --bind-address=0.0.0.0 --init-file=$PWD/users.sql --skip-name-resolve"
        ),
    );
    let ask = format!("mariadb --no-defaults -h remote -P {PORT} -u guest -N -e \"select concat('hello ', 6 * 7)\"");
    assert_converses(&pair, &ask, "hello 42\n");
}

#[test]
fn postgresql_answers_its_client() {
    let Some(programs) = postgres_programs() else { return };
    let Some(pair) = pair(&[]) else { return };
    let directory = pair.mesh.directory().to_str().expect("a plain name");
    let _server = start_postgres(&pair.server, &programs, directory, PORT);
    let ask = format!("psql -qAt postgres://postgres@remote:{PORT}/postgres -c \"select 'hello ' || 6 * 7\"");
    assert_converses(&pair, &ask, "hello 42\n");
}

#[test]
fn nats_greets_its_client() {
    let Some(pair) = pair(&[("nats-server", "nats-server")]) else { return };
    let _server = serve(&pair, &format!("nats-server -a 0.0.0.0 -p {PORT}"));
    // Commands of the protocol, which clients send after the server's INFO.
    let talk = format!(
        r#"exec 3<>/dev/tcp/remote/{PORT}; read -r -u 3 info; echo "${{info%% *}}"
        printf 'CONNECT {{"verbose":false}}\r\nSUB greetings 1\r\nPUB greetings 5\r\nhello\r\nPING\r\n' >&3
        for _ in 1 2 3; do read -r -u 3 line; echo "${{line%$'\r'}}"; done"#
    );
    assert_converses(&pair, &talk, "INFO\nMSG greetings 1 5\nhello\nPONG\n");
}

#[test]
fn ssh_runs_a_command() {
    let Some(pair) = pair(&[("sshd", "openssh-server"), ("ssh", "openssh-client")]) else { return };
    // sshd needs this directory to drop its privileges; Debian's service makes it.
    if !Path::new("/run/sshd").is_dir() {
        std::fs::create_dir("/run/sshd").expect("root may");
    }
    in_directory(&pair, "ssh-keygen -q -t ed25519 -N '' -f key");
    let options =
        "-o StrictModes=no -o UsePAM=no -o PidFile=none -o AuthorizedKeysFile=$PWD/key.pub -o ListenAddress=0.0.0.0";
    let _server = serve(&pair, &format!("$(command -v sshd) -D -e -f /dev/null -h $PWD/key -p {PORT} {options}"));
    let ask = format!(
        "ssh -F none -i key -p {PORT} -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null root@remote echo hello"
    );
    assert_converses(&pair, &ask, "hello\n");
}

#[test]
fn smtp_takes_a_mail() {
    let Some(pair) = pair(&[("aiosmtpd", "python3-aiosmtpd"), ("curl", "curl")]) else { return };
    let server = serve(&pair, &format!("aiosmtpd -n -c aiosmtpd.handlers.Debugging stdout -l 0.0.0.0:{PORT}"));
    let mail = format!(
        "printf 'Subject: hello\\r\\n\\r\\nsecond line\\r\\n' | \
         curl -sS --max-time 10 smtp://remote:{PORT} --mail-from a@test.example --mail-rcpt b@test.example -T - && echo sent"
    );
    assert_converses(&pair, &mail, "sent\n");
    server.wait_for_output(&["second line"]);
}
