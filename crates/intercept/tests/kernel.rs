//! Checks with the program nft which rules the kernel has after our messages. Each test uses a new network namespace.
//!
//! Needs root and nft, as the system tests do. Otherwise, each test reports that it is skipped.

use std::process::Command;

const INIT: &str = env!("CARGO_BIN_EXE_leno-init");

/// Shell functions that wait, for at most 10 s, until a condition holds.
const WAIT: &str = "
        wait_for() { for n in $(seq 200); do \"$@\" && return; sleep 0.05; done; echo \"waited in vain: $*\"; exit 1; }
        listens() { ss -Hltn \"sport = :$1\" | grep -q .; }
        has_own_network() { [ \"$(readlink /proc/$1/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; }
        is_connected_to() { ss -Htn state established \"dst $1 or src $1\" | grep -q .; }";

/// Shell script that creates a second network namespace, whose process is `$neighbor`, and connects it to this one. A
/// command after `$there` runs in the second namespace.
const NEIGHBOR: &str = "
        ip link set lo up; ip link add d0 type veth peer name d1
        unshare -n sleep 30 & neighbor=$!
        there=\"nsenter -t $neighbor -n\"
        wait_for has_own_network $neighbor
        ip link set d1 netns $neighbor
        ip addr add 192.0.2.1/24 dev d0; ip addr add fd00:2::1/64 dev d0 nodad; ip link set d0 up
        $there ip addr add 192.0.2.2/24 dev d1; $there ip addr add fd00:2::2/64 dev d1 nodad; $there ip link set d1 up";

/// Shell functions for the attacks of the second namespace. `serve PORT ANSWER [COMMAND]` starts a server, and
/// `call ADDRESS PORT SOURCE_PORT [COMMAND]` prints the server's answer, or `failed` if no connection is established.
/// COMMAND runs the server or the client. The family of the call is `$family`: 4 or 6.
const CALLS: &str = "
        servers=
        serve() {
            $3 timeout 30 socat -U TCP6-LISTEN:$1,ipv6only=0,fork SYSTEM:\"echo $2\" &
            servers=\"$servers $!\"
            wait_for $3 sh -c \"ss -Hltn 'sport = :$1' | grep -q .\"
        }
        call() {
            $4 socat -u TCP$family:$1:$2,sourceport=$3,connect-timeout=2 - 2>&1 | sed 's/.* E .*/failed/'
        }";

/// Runs a script in a new network namespace. The script can use the functions of [`WAIT`].
fn in_namespace(script: &str) -> Option<(bool, String)> {
    let can = Command::new("unshare").args(["--net", "nft", "list", "ruleset"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        leno_testing::skipped("what the kernel makes of leno-init's rules: needs root, unshare and nft");
        return None;
    }
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", &format!("{WAIT}\n{script}")])
        .env("INIT", INIT)
        .output()
        .expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8(text).expect("it is text")))
}

#[test]
fn the_kernel_has_the_rules_that_were_asked_for() {
    let script = "$INIT --proxy-uid=2102 --skip-inbound-ports=22,1000-2000 --skip-outbound-ports=25 \
                  --skip-subnets=10.0.0.0/8,172.16.0.0/12,fd00::/8 >/dev/null && nft list ruleset";
    let Some((worked, text)) = in_namespace(script) else { return };
    assert!(worked, "{text}");
    let expected = "\
table inet leno {
	chain inbound {
		type nat hook prerouting priority -101; policy accept;
		iifname \"lo\" return
		fib daddr type != local return
		tcp dport 4143 return
		tcp dport 4140 return
		tcp dport 15008 return
		tcp dport 4191 return
		tcp dport 22 return
		tcp dport 1000-2000 return
		tcp flags syn / fin,syn,rst,ack redirect to :4143
	}

	chain inbound_guard {
		type filter hook input priority 0; policy accept;
		iifname \"lo\" return
		tcp flags != syn / syn,ack return
		tcp dport 4143 return
		tcp dport 4140 return
		tcp dport 15008 return
		tcp dport 4191 return
		tcp dport 22 return
		tcp dport 1000-2000 return
		meta l4proto tcp drop
	}

	chain outbound {
		type nat hook output priority -101; policy accept;
		meta skuid 2102 return
		oifname \"lo\" return
		ip6 daddr fe80::/10 return
		tcp dport 25 return
		ip daddr 10.0.0.0/8 return
		ip daddr 172.16.0.0/12 return
		ip6 daddr fd00::/8 return
		tcp flags syn / fin,syn,rst,ack redirect to :4140
	}

	chain outbound_guard {
		type filter hook output priority 0; policy accept;
		tcp flags != syn / syn,ack return
		meta skuid 2102 return
		oifname \"lo\" return
		ip6 daddr fe80::/10 return
		tcp dport 25 return
		ip daddr 10.0.0.0/8 return
		ip daddr 172.16.0.0/12 return
		ip6 daddr fd00::/8 return
		meta l4proto tcp fib daddr type != local drop
	}
}
";
    let text = text.replace("priority dstnat - 1;", "priority -101;").replace("priority filter;", "priority 0;");
    assert_eq!(text, expected);
}

#[test]
fn a_second_time_replaces_the_first() {
    let script = "$INIT --proxy-uid=1 && $INIT --proxy-uid=2 && nft list ruleset";
    let Some((worked, text)) = in_namespace(script) else { return };
    assert!(worked && text.matches("table inet leno").count() == 1, "{text}");
    assert!(text.contains("skuid 2 ") && !text.contains("skuid 1 "), "{text}");
}

#[test]
fn without_the_capability_nothing_changes_and_the_fix_is_named() {
    let script =
        "setpriv --bounding-set -net_admin --inh-caps -net_admin --reuid 2102 --clear-groups $INIT --proxy-uid=2102";
    let Some((worked, text)) = in_namespace(script) else { return };
    assert!(!worked && text.contains("NET_ADMIN") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_connection_is_redirected_in_both_families() {
    // The script calls an address that no machine has. So the answer can only come from the outbound port, and proves
    // that the connection is redirected.
    let script = "
        ip link set lo up; ip link add d0 type veth peer name d1; ip link set d0 up; ip link set d1 up
        ip addr add 192.0.2.1/24 dev d0; ip addr add fd00:2::1/64 dev d0 nodad
        $INIT --proxy-uid=2102 >/dev/null || exit 1
        for family in 4:192.0.2.77 6:[fd00:2::77]; do
            version=${family%%:*}
            echo redirected | timeout 20 socat -u - TCP$version-LISTEN:4140,reuseaddr &
            wait_for listens 4140
            timeout 5 socat -u TCP$version:${family#*:}:80 - || exit 1
        done";
    let Some((worked, text)) = in_namespace(script) else { return };
    assert!(worked, "{text}");
    assert_eq!(text, "redirected\nredirected\n");
}

#[test]
fn a_connection_from_before_the_rules_stays_as_it_is() {
    // The client connects before the rules are loaded, and the server sends its first bytes afterwards. The kernel has
    // not tracked the connection until then, so it takes these bytes for the first packet of a new connection. The rules
    // are once in the client's namespace, and once in the server's namespace.
    let script = format!(
        "{NEIGHBOR}
        for rules in client server; do
            go=$(mktemp -u)
            if [ $rules = client ]; then client=; server=$there; else client=$there; server=; fi
            address=192.0.2.$([ $rules = client ] && echo 2 || echo 1)
            $server timeout 20 socat -u SYSTEM:\"until [ -e $go ]; do sleep 0.1; done; echo late\" TCP4-LISTEN:7000 &
            wait_for $server sh -c 'ss -Hltn \"sport = :7000\" | grep -q .'
            $client timeout 10 socat -u TCP4:$address:7000 - & waiting=$!
            wait_for is_connected_to $address
            $INIT --proxy-uid=2102 >/dev/null || exit 1
            touch $go; wait $waiting; rm $go; nft delete table inet leno
        done; kill $neighbor"
    );
    let Some((worked, text)) = in_namespace(&script) else { return };
    assert!(worked, "{text}");
    assert_eq!(text, "late\nlate\n");
}

#[test]
fn a_client_learns_that_its_connection_has_ended_after_the_kernel_has_forgotten_it() {
    // The server closes the connection, and the kernel soon forgets it. The client does not read, so it learns of the end
    // only by the reset that answers its next bytes. Rules that drop packets without a tracked connection would let the
    // client wait in vain.
    let script = format!(
        "{NEIGHBOR}
        for timeout in ipv4/tcp_fin_timeout netfilter/nf_conntrack_tcp_timeout_fin_wait \
            netfilter/nf_conntrack_tcp_timeout_close_wait; do
            echo 1 >/proc/sys/net/$timeout || exit 1
        done
        $INIT --proxy-uid=2102 >/dev/null || exit 1
        timeout 20 socat -u OPEN:/dev/null TCP4-LISTEN:4143 &
        wait_for listens 4143
        $there timeout 20 socat -u SYSTEM:'sleep 4; echo late; sleep 1; echo later' TCP4:192.0.2.1:8080 2>&1 |
            grep -o 'Broken pipe'
        kill $neighbor"
    );
    let Some((worked, text)) = in_namespace(&script) else { return };
    assert!(worked, "{text}");
    assert_eq!(text, "Broken pipe\n");
}

#[test]
fn a_neighbor_that_makes_the_kernel_track_a_connection_does_not_bypass_the_proxy() {
    // Without the attack, the rules redirect the call to the proxy. After the attack, the kernel does not redirect the
    // call, so it has to drop it.
    for (family, client, server) in [("4", "192.0.2.2", "192.0.2.1"), ("6", "[fd00:2::2]", "[fd00:2::1]")] {
        let [tracked, application] = [format!("{client}:40002"), format!("{server}:8080")];
        let attack =
            leno_testing::silent_ack(tracked.parse().expect("an address"), application.parse().expect("an address"));
        let script = format!(
            "{NEIGHBOR}
            {CALLS}
            family={family}
            $INIT --proxy-uid=2102 --skip-inbound-ports=9000 >/dev/null || exit 1
            serve 8080 application; serve 9000 skipped; serve 4143 proxy
            call {server} 8080 40001 \"$there\"; call {server} 9000 40001 \"$there\"; call {server} 4143 40001 \"$there\"
            $there sh -c \"{attack}\"
            call {server} 8080 40002 \"$there\"
            call {server} 8080 40003 \"$there\"
            kill $neighbor $servers"
        );
        let Some((worked, text)) = in_namespace(&script) else { return };
        assert!(worked, "{text}");
        assert_eq!(text, "proxy\nskipped\nproxy\nfailed\nproxy\n", "IPv{family}");
    }
}

#[test]
fn a_neighbor_that_makes_the_kernel_track_a_connection_does_not_take_a_call_off_the_proxy() {
    // The packet comes from the server's address and port, and another machine on the link could send the same packet.
    // After the packet, the kernel does not redirect a call from the packet's destination port, so it has to drop the
    // call. Calls of the proxy, calls to a skipped port and calls to the own address are not redirected anyway.
    for (family, own, other) in [("4", "192.0.2.1", "192.0.2.2"), ("6", "[fd00:2::1]", "[fd00:2::2]")] {
        let [server, tracked] = [format!("{other}:8080"), format!("{own}:40002")];
        let attack =
            leno_testing::silent_ack(server.parse().expect("an address"), tracked.parse().expect("an address"));
        let script = format!(
            "{NEIGHBOR}
            {CALLS}
            family={family}
            $INIT --proxy-uid=2102 --skip-outbound-ports=9000 >/dev/null || exit 1
            serve 4140 proxy; serve 7000 own; serve 8080 server \"$there\"; serve 9000 skipped \"$there\"
            call {other} 8080 40001; call {other} 9000 40001; call {own} 7000 40001
            call {other} 8080 40004 'setpriv --reuid 2102 --clear-groups'
            $there sh -c \"{attack}\"
            call {other} 8080 40002
            call {other} 8080 40003
            kill $neighbor $servers"
        );
        let Some((worked, text)) = in_namespace(&script) else { return };
        assert!(worked, "{text}");
        assert_eq!(text, "proxy\nskipped\nown\nserver\nfailed\nproxy\n", "IPv{family}");
    }
}
