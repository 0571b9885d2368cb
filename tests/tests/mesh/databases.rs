//! Redis and PostgreSQL through the mesh, on ports that are opaque by default.

use std::fs;

use leno_tests::mesh::{MeshService, Program, Workload, is_installed, skipped};
use leno_tests::programs::text;

use super::Pair;

#[test]
fn redis_answers_redis_cli_without_a_delay_and_without_a_word_about_its_port() {
    if !(is_installed("redis-server", "redis-server") && is_installed("redis-cli", "redis-tools")) {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("cache", 6379).at(server)) else { return };
    let words = ["--protected-mode", "no", "--save", "", "--bind", "0.0.0.0"];
    let _redis = pair.server.start("redis-server", &words);
    pair.server.wait_for_port(6379);
    let redis = |words: &[&str]| pair.client.run_well("redis-cli", &[&["-h", "cache"], words].concat());
    assert_eq!(redis(&["set", "greeting", "hello"]), "OK\n");
    assert_eq!(redis(&["get", "greeting"]), "hello\n");
    // Store a value that is larger than all flow-control windows, and then open many connections at once.
    assert_eq!(redis(&["eval", "redis.call('set', 'big', string.rep('x', 20000000)) return 1", "0"]), "1\n");
    assert_eq!(redis(&["get", "big"]).trim_end().len(), 20_000_000);
    let load =
        pair.client.run_well("redis-benchmark", &["-h", "cache", "-t", "get,set", "-n", "4000", "-c", "50", "-q"]);
    assert!(load.contains("requests per second") && !load.contains("Error"), "{load}");
    pair.assert_encrypted();
    let opened = pair.client.scrape().sum("tcp_open_total", &[r#"peer="dst""#, r#"tls="true""#]);
    assert!(opened < 10.0, "the tunnels of 50 connections share connections: {opened}");
}

#[test]
fn postgresql_answers_psql_which_lets_the_server_speak_first() {
    let Some(programs) = postgres_programs() else { return };
    let Some(pair) = Pair::new(|server| MeshService::new("orders", 5432).at(server)) else { return };
    let _postgres =
        start_postgres(&pair.server, &programs, pair.mesh.directory().to_str().expect("a plain name"), 5432);
    let psql = |sql: &str| pair.client.run_well("psql", &["-qAt", "postgres://postgres@orders/postgres", "-c", sql]);
    assert_eq!(psql("select 'hello ' || sum(n) from generate_series(1, 100) n"), "hello 5050\n");
    assert_eq!(psql("select repeat('x', 3000000)").trim_end().len(), 3_000_000);
    pair.assert_encrypted();
}

/// Returns the directory of Debian's PostgreSQL server programs. It is not on the PATH, because several versions may be
/// installed. If the server programs or the client are missing, reports that the test is skipped and returns `None`.
pub(super) fn postgres_programs() -> Option<String> {
    if !is_installed("psql", "postgresql-client") {
        return None;
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let found = programs.find(|path| path.join("initdb").is_file());
    if found.is_none() {
        skipped("PostgreSQL is not there; type: apt-get install postgresql");
    }
    found.map(|path| path.display().to_string())
}

/// Creates a database in `directory` and serves it on `port`, open to every user.
pub(super) fn start_postgres(workload: &Workload, programs: &str, directory: &str, port: u16) -> Program {
    let script = format!(
        "mkdir {directory}/database && chown nobody {directory}/database && cd {directory}
        setpriv --reuid nobody --regid nogroup --clear-groups \\
            {programs}/initdb -D database -U postgres --auth trust --no-sync >initdb.log 2>&1 || (cat initdb.log; exit 1)
        echo 'host all all all trust' >>database/pg_hba.conf"
    );
    let made = workload.run("sh", &["-ec", &script]);
    assert!(made.status.success(), "{}", text(&made));
    let serve = format!(
        "exec setpriv --reuid nobody --regid nogroup --clear-groups --pdeathsig KILL {programs}/postgres \\
        -D {directory}/database -F -h '*' -p {port} -k /tmp"
    );
    let postgres = workload.start("sh", &["-c", &serve]);
    workload.wait_for_port(port);
    postgres
}
