//! `leno intercept`: the effect of the rules on real connections between two network namespaces.
//!
//! Each test runs itself again in a separate namespace ("here"), and creates a second namespace beside it ("there").

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use leno_testing::silent_ack;
use leno_tests::mesh::is_installed;
use leno_tests::proxy::wait_for;
use leno_tests::{namespaces, programs};
use socket2::SockRef;

/// The IPv4 and IPv6 addresses of this namespace.
const HERE: [&str; 2] = ["10.99.0.1", "fd00:99::1"];
/// The IPv4 and IPv6 addresses of the other namespace.
const THERE: [&str; 2] = ["10.99.0.2", "fd00:99::2"];
/// The link-local address of the other namespace, with our interface to it.
const THERE_ON_THE_LINK: &str = "fe80::2%here";
/// Environment variable with the backend (`nft`, `iptables` or `auto`) for a test inside a namespace.
const BACKEND: &str = "LENO_TEST_BACKEND";
/// The user id of the proxy in the rules. No program of the test has this id, so the rules apply to all programs.
const SOMEBODY_ELSE: &str = "2102";
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn nftables_redirect_both_directions_in_both_families_and_nothing_else() {
    run_inside("nft", "redirects");
}

#[test]
fn iptables_legacy_redirect_both_directions_in_both_families_and_nothing_else() {
    run_inside("iptables", "redirects");
}

#[test]
fn nftables_let_no_connection_bypass_the_proxy() {
    if is_installed("socat", "socat") {
        run_inside("nft", "cannot_be_bypassed");
    }
}

#[test]
fn iptables_legacy_let_no_connection_bypass_the_proxy() {
    if is_installed("socat", "socat") {
        run_inside("iptables", "cannot_be_bypassed");
    }
}

#[test]
fn nftables_rules_replace_themselves_and_leave_those_of_others_alone() {
    run_inside("nft", "leaves_nothing_behind");
}

#[test]
fn nftables_rules_are_the_ones_that_a_dry_run_shows() {
    run_inside("nft", "loads_what_it_shows");
}

#[test]
fn iptables_legacy_rules_replace_themselves_and_leave_those_of_others_alone() {
    run_inside("iptables", "leaves_nothing_behind");
}

#[test]
fn another_backend_takes_the_place_of_the_first() {
    run_inside("auto", "changes_backends");
}

#[test]
fn rules_that_cannot_be_read_are_an_error_and_the_other_backends_rules_are_removed() {
    run_inside("nft", "reports_a_broken_program");
}

#[test]
fn without_permission_one_line_says_what_is_needed_and_rules_can_still_be_shown() {
    // Run `leno` without capabilities: a program has none in a user namespace that does not map its user.
    let leno = programs::program("leno");
    let nobody = |words: &str| {
        let mut command = Command::new("unshare");
        command.arg("--user").arg(&leno).arg("intercept").args(words.split(' '));
        command.output().expect("unshare (util-linux) runs")
    };
    for words in ["up --proxy-uid 2102", "down", "show"] {
        let output = nobody(words);
        let error = programs::text(&output);
        assert!(!output.status.success() && error.lines().count() == 1, "{words}: {error}");
        assert!(error.contains("CAP_NET_ADMIN") && error.contains("sudo"), "{words}: {error}");
    }
    for (backend, rule) in [("nft", "redirect to :4143"), ("iptables", "-j REDIRECT --to-ports 4143")] {
        let output = nobody(&format!("up --proxy-uid 2102 --dry-run --backend {backend}"));
        assert!(output.status.success() && programs::text(&output).contains(rule), "{}", programs::text(&output));
    }
}

/// Runs one of the tests below in separate namespaces.
fn run_inside(backend: &str, test: &str) {
    namespaces::run_test_inside(&format!("intercept::{test}"), &[(BACKEND, backend)]);
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn redirects() {
    let there = Neighbour::new();
    for port in [4140, 4143, 15008] {
        report_on(port);
    }
    up(SOMEBODY_ELSE, "--skip-inbound-ports 22,1000-2000 --skip-outbound-ports 25,3000-4000");
    for (own, other) in HERE.into_iter().zip(THERE) {
        // Outbound connections, and connections of the application to itself.
        assert_eq!(call(other, 80), format!("4140 {}", address(other, 80)));
        assert_eq!(call(other, 2999), format!("4140 {}", address(other, 2999)));
        for port in [25, 3000, 4000] {
            assert_eq!(call(other, port), "refused", "port {port} is skipped");
        }
        assert_eq!(call(own, 80), "refused", "{own} is this namespace's own");
        // Inbound connections.
        assert_eq!(there.call(own, 80), format!("4143 {}", address(own, 80)));
        assert_eq!(there.call(own, 25), format!("4143 {}", address(own, 25)));
        for port in [4140, 15008] {
            assert_eq!(there.call(own, port), format!("{port} {}", address(own, port)), "the proxy's own port");
        }
        for port in [22, 1000, 2000, 4191] {
            assert_eq!(there.call(own, port), "refused", "port {port} is skipped");
        }
    }
    for loopback in ["127.0.0.1", "::1"] {
        assert_eq!(call(loopback, 80), "refused");
    }
    assert_eq!(call(THERE_ON_THE_LINK, 80), "refused", "the proxy could not connect to a link-local address");

    up(SOMEBODY_ELSE, "--skip-subnets 10.99.0.0/16");
    assert_eq!(call(THERE[0], 80), "refused", "its network is skipped");
    assert_eq!(call(THERE[1], 80), format!("4140 {}", address(THERE[1], 80)));
    assert_eq!(there.call(HERE[0], 22), format!("4143 {}", address(HERE[0], 22)), "only outbound");

    up("0", "");
    for (own, other) in HERE.into_iter().zip(THERE) {
        assert_eq!(call(other, 80), "refused", "the proxy's own connections are left alone");
        assert_eq!(there.call(own, 80), format!("4143 {}", address(own, 80)));
    }
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn cannot_be_bypassed() {
    let there = Neighbour::new();
    for port in [80, 4140, 4143] {
        report_on(port);
    }
    let _server = there.serve(80);
    up(SOMEBODY_ELSE, "");
    // These rules accept every packet of TCP in the table filter, at the start of its chains.
    foreign_rules();
    for (own, other) in HERE.into_iter().zip(THERE) {
        let (application, server) = (address(own, 80), address(other, 80));
        let from_there = |port: u16| there.run("socat", &from_port(port, application).each_ref().map(String::as_str));
        let from_here =
            |port: u16| programs::run("socat", &from_port(port, server).each_ref().map(String::as_str), TIMEOUT);
        let redirected = |output: &Output, proxy: u16, to: SocketAddr| {
            assert_eq!(programs::text(output), format!("{proxy} {to}"));
        };
        // After an attack, the kernel does not redirect connections between these ports, so it has to drop them.
        let dropped = |output: &Output| {
            let text = programs::text(output);
            assert!(!output.status.success() && text.contains("timed out"), "{text}");
        };
        redirected(&from_there(40001), 4143, application);
        there.attack(address(other, 40002), application);
        dropped(&from_there(40002));
        redirected(&from_there(40003), 4143, application);

        redirected(&from_here(40001), 4140, server);
        there.attack(server, address(own, 40002));
        dropped(&from_here(40002));
        redirected(&from_here(40003), 4140, server);
    }
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn leaves_nothing_behind() {
    let _there = Neighbour::new();
    foreign_rules();
    let before = all_rules();
    up(SOMEBODY_ELSE, "");
    let once = all_rules();
    assert_ne!(once, before);
    for line in before.lines() {
        assert!(once.contains(line), "no longer there: {line}");
    }
    up(SOMEBODY_ELSE, "");
    assert_eq!(all_rules(), once, "twice is as once");
    assert!(leno("show").contains("4140"), "{}", leno("show"));
    leno("down");
    assert_eq!(all_rules(), before);
    leno("down");
    assert_eq!(all_rules(), before);
    assert!(leno("show").contains("no connections are intercepted"), "{}", leno("show"));
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn loads_what_it_shows() {
    let options = "up --proxy-uid 7 --skip-inbound-ports 22,1000-2000 --skip-outbound-ports 25 \
                   --skip-subnets 10.0.0.0/8,192.168.1.0/24,fd00::/8";
    leno(options);
    let loaded = leno("show");
    leno("down");
    let shown = leno(&format!("{options} --dry-run"));
    let script = format!("nft -f - <<'RULES'\n{shown}RULES\nnft list table inet leno");
    assert_eq!(programs::run_well("sh", &["-ec", &script], TIMEOUT), loaded);
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn changes_backends() {
    let up = |backend: &str| leno(&format!("up --proxy-uid 7 --backend {backend}"));
    up("auto");
    assert!(leno("show").contains("table inet leno"), "nft is the first that auto tries: {}", leno("show"));
    up("iptables");
    let shown = leno("show");
    assert!(!shown.contains("table inet leno") && shown.contains("ip6tables-legacy -t nat"), "{shown}");
    up("nft");
    let shown = leno("show");
    assert!(shown.contains("table inet leno") && !shown.contains("iptables"), "{shown}");
}

#[ignore = "runs inside the namespaces that other tests make"]
#[test]
fn reports_a_broken_program() {
    // The second iptables program loads the rules in place of the broken one. In the order of removal, it comes after
    // the broken one.
    let warning = beside_a_broken_program("up --proxy-uid 7 --backend iptables", true);
    assert!(warning.starts_with("leno: the rules are loaded, but older rules may be in force too"), "{warning}");
    let shown = beside_a_broken_program("show", true);
    assert!(shown.contains("iptables -t nat -A") && shown.contains("# cannot read the rules"), "{shown}");
    let error = beside_a_broken_program("down", false);
    let parts = ["iptables-legacy-save: out of order", "repair iptables-legacy, or uninstall it"];
    assert!(error.lines().count() == 1 && parts.iter().all(|part| error.contains(part)), "{error}");
    assert!(leno("show").contains("no connections are intercepted"), "{}", leno("show"));
}

/// Runs `leno intercept` with these words while the program iptables-legacy-save fails, and returns its output.
fn beside_a_broken_program(words: &str, succeeds: bool) -> String {
    let script = format!(
        "broken=$(mktemp -d)
        printf '#!/bin/sh\necho out of order >&2; exit 3\n' >$broken/iptables-legacy-save
        chmod +x $broken/iptables-legacy-save
        nft=$(command -v xtables-nft-multi)
        for program in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
            ln -s $nft $broken/$program
        done
        status=0; PATH=$broken:$PATH {} intercept {words} || status=$?
        rm -r $broken; exit $status",
        programs::program("leno").display()
    );
    let output = programs::run("sh", &["-ec", &script], TIMEOUT);
    let text = programs::text(&output);
    assert_eq!(output.status.success(), succeeds, "{text}");
    text
}

/// Runs `leno intercept` with these words, which must succeed, and returns its output.
fn leno(words: &str) -> String {
    let words: Vec<&str> = ["intercept"].into_iter().chain(words.split_whitespace()).collect();
    programs::run_well("leno", &words, TIMEOUT)
}

fn up(proxy_uid: &str, words: &str) {
    let backend = std::env::var(BACKEND).expect("the outer test says");
    leno(&format!("up --proxy-uid {proxy_uid} --backend {backend} {words}"));
}

/// Adds rules that represent the rules of another program, with each of the tools that Leno may use.
fn foreign_rules() {
    let script = "nft add table inet foreign
        nft add chain inet foreign output '{ type nat hook output priority -100; }'
        nft add rule inet foreign output tcp dport 9 redirect to :10
        for iptables in iptables-legacy ip6tables-legacy; do
            $iptables -t nat -A OUTPUT -p tcp --dport 9 -j REDIRECT --to-ports 10
            $iptables -t security -A INPUT -p tcp --dport 9 -j ACCEPT
            $iptables -A FORWARD -j DROP
            $iptables -I INPUT -p tcp -j ACCEPT
            $iptables -I OUTPUT -p tcp -j ACCEPT
        done";
    programs::run_well("sh", &["-ec", script], TIMEOUT);
}

/// Returns all netfilter rules, without counters.
fn all_rules() -> String {
    let script = "nft --stateless list ruleset; iptables-legacy-save; ip6tables-legacy-save";
    let text = programs::run_well("sh", &["-ec", script], TIMEOUT);
    let is_rule = |line: &&str| !line.starts_with('#');
    text.lines().filter(is_rule).map(|line| line.split(" [").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Listens on a port, and sends on each connection the port and the connection's original destination.
fn report_on(port: u16) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("the port is free in a new namespace");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            let socket = SockRef::from(&connection);
            let is_v4 = connection.local_addr().expect("its address").ip().to_canonical().is_ipv4();
            let meant = if is_v4 { socket.original_dst_v4() } else { socket.original_dst_v6() };
            let meant = meant.expect("netfilter knows it").as_socket().expect("an IP address");
            write!(connection, "{port} {meant}").expect("the client reads");
        }
    });
}

fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse::<IpAddr>().expect("an address"), port)
}

/// Connects from this namespace. Returns the listener's answer, or `refused`.
fn call(ip: &str, port: u16) -> String {
    // `IpAddr` cannot hold the interface of a link-local address.
    let server = (ip, port).to_socket_addrs().expect("an address").next().expect("an address");
    let mut connection = match TcpStream::connect_timeout(&server, TIMEOUT) {
        Ok(connection) => connection,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return "refused".to_owned(),
        Err(error) => return error.to_string(),
    };
    let mut said = String::new();
    connection.read_to_string(&mut said).expect("the listener speaks");
    said
}

/// Returns the arguments for socat that connect to the server from this source port. socat fails if no connection is
/// established within 2 s.
fn from_port(port: u16, server: SocketAddr) -> [String; 3] {
    let family = if server.is_ipv4() { "TCP4" } else { "TCP6" };
    ["-u".to_owned(), format!("{family}:{server},sourceport={port},connect-timeout=2"), "-".to_owned()]
}

/// The other namespace.
struct Neighbour(Child);

impl Neighbour {
    /// Creates the namespace, connected to ours by a pair of virtual Ethernet devices.
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "60"]).stdin(Stdio::null()).stdout(Stdio::null());
        let this = Self(command.spawn().expect("unshare (util-linux) runs"));
        let pid = this.0.id();
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let is_apart = || (namespace(&pid.to_string()) != namespace("self")).then_some(());
        wait_for("a second network namespace", TIMEOUT, is_apart);
        let [here, here_v6] = HERE;
        let [there, there_v6] = THERE;
        let own = format!(
            "ip link set lo up
            ip link add here type veth peer name there netns {pid}
            ip address add {here}/24 dev here
            ip -6 address add {here_v6}/64 dev here nodad
            ip link set here up"
        );
        programs::run_well("sh", &["-ec", &own], TIMEOUT);
        let its = format!(
            "ip link set lo up
            ip address add {there}/24 dev there
            ip -6 address add {there_v6}/64 dev there nodad
            ip -6 address add fe80::2/64 dev there nodad
            ip link set there up"
        );
        let output = this.run("sh", &["-ec", &its]);
        assert!(output.status.success(), "{}", programs::text(&output));
        this
    }

    /// Connects from the other namespace. Returns the listener's answer, or `refused`.
    fn call(&self, ip: &str, port: u16) -> String {
        let script = format!("exec 3<>/dev/tcp/{ip}/{port} && cat <&3");
        let output = self.run("bash", &["-c", &script]);
        let said = programs::text(&output);
        if said.contains("Connection refused") { "refused".to_owned() } else { said }
    }

    /// Sends a packet from the other namespace that makes this namespace's kernel track a connection.
    fn attack(&self, from: SocketAddr, to: SocketAddr) {
        let output = self.run("sh", &["-ec", &silent_ack(from, to)]);
        assert!(output.status.success(), "{}", programs::text(&output));
    }

    /// Starts a server in the other namespace.
    fn serve(&self, port: u16) -> programs::Server {
        let target = self.0.id().to_string();
        let listener = format!("TCP6-LISTEN:{port},ipv6only=0,fork");
        let words = ["--net", "--target", &target, "socat", "-U", &listener, "SYSTEM:echo server"];
        let server = programs::Server::start("nsenter", &words);
        wait_for("a server in the other namespace", TIMEOUT, || {
            (self.call(THERE[0], port) == "server\n").then_some(())
        });
        server
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let target = self.0.id().to_string();
        let arguments: Vec<&str> =
            ["--net", "--target", &target, program].into_iter().chain(arguments.iter().copied()).collect();
        programs::run("nsenter", &arguments, TIMEOUT)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // The process may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
