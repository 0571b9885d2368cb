//! The rules in nf_tables: our own table, for IPv4 and IPv6. For each direction, it has a chain that redirects
//! connections, and a guard: a chain that drops connections that should have been redirected.
//!
//! A rule is a sequence of expressions. An expression loads a value of the packet into the register, or compares the
//! register; the packet leaves the rule if the comparison fails. The last expression returns, drops or redirects. Each
//! rule also has a text in the syntax of the program nft, for people to read. The numbers come from Linux'
//! `linux/netfilter/nf_tables.h`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::message::{Attributes, Batch, request};
use crate::redirection::{PortRange, Redirection, Subnet};

pub const TABLE: &str = "leno";
/// The nf_tables family `inet`, whose tables apply to IPv4 and IPv6.
const INET: u8 = 1;
/// Priority just before netfilter's usual priority for destination NAT (-100), which other programs' chains use. So our
/// rules run before these chains, and see the address that the application called.
const REDIRECT_PRIORITY: i32 = -101;
/// Netfilter's usual priority for filters, which run after destination NAT at the same hook. The order among filters does
/// not matter: a packet that one filter drops is dropped, although another filter accepts it.
const FILTER_PRIORITY: i32 = 0;

const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

const NEW_TABLE: u8 = 0;
const GET_TABLE: u8 = 1;
const DELETE_TABLE: u8 = 2;
const NEW_CHAIN: u8 = 3;
const NEW_RULE: u8 = 6;

/// The hook that a chain is attached to.
#[derive(Clone, Copy)]
enum Hook {
    Prerouting = 0,
    Input = 1,
    Output = 3,
}

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// The type of a chain.
#[derive(Clone, Copy)]
enum ChainType {
    Nat,
    Filter,
}

impl ChainType {
    fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
        }
    }

    fn priority(self) -> i32 {
        match self {
            Self::Nat => REDIRECT_PRIORITY,
            Self::Filter => FILTER_PRIORITY,
        }
    }
}

/// Packet metadata: facts that the kernel knows about a packet and that are not in its bytes.
#[derive(Clone, Copy)]
enum Meta {
    InputInterface = 6,
    OutputInterface = 7,
    SocketUser = 10,
    Family = 15,
    Transport = 16,
}

/// The packet header to read from. Offsets count from the header's first byte.
#[derive(Clone, Copy)]
enum Header {
    Network = 1,
    Transport = 2,
}

#[derive(Clone, Copy)]
enum Comparison {
    Equal = 0,
    NotEqual = 1,
}

const TCP: u8 = 6;
/// The link-local addresses of IPv6 (RFC 4291 section 2.5.6). They have a meaning only together with an interface, and
/// the original destination of a connection does not tell the proxy the interface. So the proxy could not connect to
/// such an address.
pub const LINK_LOCAL: Subnet =
    Subnet { address: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), prefix_bits: 10 };
/// Length of an interface's name, padded with zeros.
const INTERFACE_BYTES: usize = 16;
const LOOPBACK: &[u8; INTERFACE_BYTES] = b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// The kernel's address type (`RTN_LOCAL`) for the addresses of this network namespace.
const LOCAL: u32 = 2;
const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const DROP: i32 = 0;
const RETURN: i32 = -5;

/// Offset of the flags in the TCP header.
const FLAGS_OFFSET: u32 = 13;
const FIN: u8 = 1 << 0;
const SYN: u8 = 1 << 1;
const RST: u8 = 1 << 2;
const ACK: u8 = 1 << 4;

/// Makes one transaction that first removes an existing redirection, and then adds `redirection`.
pub fn transaction(redirection: &Redirection) -> Vec<u8> {
    let mut batch = removal();
    batch.add(NEW_TABLE, CREATE, INET, &table());
    for chain in chains(redirection) {
        chain.add_to(&mut batch);
    }
    batch.finish()
}

/// Makes one transaction that removes the redirection, if there is one.
pub(crate) fn removing_transaction() -> Vec<u8> {
    removal().finish()
}

/// Makes a request for our table. The kernel answers with the table, or with the error `ENOENT`.
pub(crate) fn question() -> Vec<u8> {
    request(GET_TABLE, INET, &table())
}

/// Describes the rules as the program nft reads and shows them.
pub fn description(redirection: &Redirection) -> String {
    let chains: String = chains(redirection).iter().map(ToString::to_string).collect();
    format!("add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{chains}}}\n")
}

fn table() -> Attributes {
    Attributes::default().text(1, TABLE)
}

fn removal() -> Batch {
    let mut batch = Batch::new();
    // Deleting a missing table would fail, so create it first.
    batch.add(NEW_TABLE, CREATE, INET, &table());
    batch.add(DELETE_TABLE, 0, INET, &table());
    batch
}

fn chains(redirection: &Redirection) -> [Chain; 4] {
    let chain = |name, chain_type, hook, rules| Chain { name, chain_type, hook, rules };
    [
        chain("inbound", ChainType::Nat, Hook::Prerouting, inbound(redirection)),
        chain("inbound_guard", ChainType::Filter, Hook::Input, inbound_guard(redirection)),
        chain("outbound", ChainType::Nat, Hook::Output, outbound(redirection)),
        chain("outbound_guard", ChainType::Filter, Hook::Output, outbound_guard(redirection)),
    ]
}

/// Also redirects connections to link-local addresses, although the proxy can only refuse them. Otherwise, a neighbor
/// on the same link could reach the application without the policies that the proxy enforces.
fn inbound(redirection: &Redirection) -> Vec<Rule> {
    let mut rules =
        vec![Rule::new().enters_by_loopback().then_return(), Rule::new().has_foreign_destination().then_return()];
    rules.extend(open_ports(redirection));
    rules.push(Rule::new().begins_tcp().then_redirect(redirection.inbound_port.get()));
    rules
}

/// Drops each first packet of a connection from outside that has not been redirected.
///
/// The kernel applies the rules of [`inbound`] only to the packet with which it starts to track a connection. A neighbor
/// can make this packet one that is not redirected, and that TCP ignores without an answer: an ACK with an option for
/// TCP-MD5, for example. A SYN from the same port then belongs to the tracked connection. So the kernel would not
/// redirect the SYN, and the neighbor would reach the application without the policies that the proxy enforces.
///
/// At this hook, the destination of a redirected packet is the proxy's port. So the rules need no knowledge of why a
/// packet was not redirected. Later packets of a connection leave the chain at the second rule.
fn inbound_guard(redirection: &Redirection) -> Vec<Rule> {
    let mut rules = vec![Rule::new().enters_by_loopback().then_return(), Rule::new().cannot_begin_tcp().then_return()];
    rules.extend(open_ports(redirection));
    rules.push(Rule::new().tcp().then_drop());
    rules
}

/// Returns from the chain for the ports that clients reach without a redirection.
fn open_ports(redirection: &Redirection) -> impl Iterator<Item = Rule> {
    let own = redirection.proxy_ports().into_iter().map(|port| Rule::new().port(port..=port).then_return());
    own.chain(redirection.skip_inbound_ports.iter().map(skip_ports))
}

fn outbound(redirection: &Redirection) -> Vec<Rule> {
    let mut rules = direct_calls(redirection);
    rules.push(Rule::new().begins_tcp().then_redirect(redirection.outbound_port.get()));
    rules
}

/// Drops each first packet of an outbound connection that has not been redirected, as [`inbound_guard`] does for the
/// other direction.
///
/// A neighbor sends the packet that TCP ignores from a server's address and port to a port of this namespace. If the
/// application later calls the server from this port, its SYN is an answer within the connection that the kernel tracks.
/// So the kernel would not redirect the SYN, and the call would leave without the proxy's TLS and identity.
///
/// At this hook, the destination of a redirected packet is an address of this namespace.
fn outbound_guard(redirection: &Redirection) -> Vec<Rule> {
    let mut rules = vec![Rule::new().cannot_begin_tcp().then_return()];
    rules.extend(direct_calls(redirection));
    rules.push(Rule::new().tcp().has_foreign_destination().then_drop());
    rules
}

/// Returns from the chain for the connections that leave this namespace without the proxy, and for loopback.
fn direct_calls(redirection: &Redirection) -> Vec<Rule> {
    let mut rules = vec![
        Rule::new().of_user(redirection.proxy_uid).then_return(),
        Rule::new().leaves_by_loopback().then_return(),
        skip_subnet(&LINK_LOCAL),
    ];
    rules.extend(redirection.skip_outbound_ports.iter().map(skip_ports));
    rules.extend(redirection.skip_subnets.iter().map(skip_subnet));
    rules
}

fn skip_ports(range: &PortRange) -> Rule {
    Rule::new().port(range.first.get()..=range.last.get()).then_return()
}

fn skip_subnet(subnet: &Subnet) -> Rule {
    Rule::new().destination(subnet).then_return()
}

/// A chain: the ordered rules that the kernel applies to the packets at `hook`.
struct Chain {
    name: &'static str,
    chain_type: ChainType,
    hook: Hook,
    rules: Vec<Rule>,
}

impl Chain {
    fn add_to(&self, batch: &mut Batch) {
        const ACCEPT: u32 = 1;
        let priority = self.chain_type.priority().cast_unsigned();
        let place = Attributes::default().number(1, self.hook as u32).number(2, priority);
        let chain = table().text(3, self.name).nested(4, &place).number(5, ACCEPT).text(7, self.chain_type.name());
        batch.add(NEW_CHAIN, CREATE, INET, &chain);
        for rule in &self.rules {
            let rule = table().text(2, self.name).nested(4, &rule.expressions);
            batch.add(NEW_RULE, CREATE | APPEND, INET, &rule);
        }
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chain_type, hook, priority) = (self.chain_type.name(), self.hook.name(), self.chain_type.priority());
        writeln!(f, "  chain {} {{", self.name)?;
        writeln!(f, "    type {chain_type} hook {hook} priority {priority}; policy accept;")?;
        self.rules.iter().try_for_each(|rule| writeln!(f, "    {}", rule.words.join(" ")))?;
        writeln!(f, "  }}")
    }
}

/// A rule: its expressions for the kernel, and the same rule as text in nft's syntax.
struct Rule {
    expressions: Attributes,
    words: Vec<String>,
}

impl Rule {
    fn new() -> Self {
        Self { expressions: Attributes::default(), words: Vec::new() }
    }

    fn enters_by_loopback(self) -> Self {
        self.says("iifname \"lo\"").meta(Meta::InputInterface).equals(LOOPBACK)
    }

    fn leaves_by_loopback(self) -> Self {
        self.says("oifname \"lo\"").meta(Meta::OutputInterface).equals(LOOPBACK)
    }

    /// Matches packets of sockets of the user with this id.
    fn of_user(self, uid: u32) -> Self {
        self.says(format!("meta skuid {uid}")).meta(Meta::SocketUser).equals(&uid.to_ne_bytes())
    }

    /// Matches destinations that are not an address of this namespace.
    fn has_foreign_destination(self) -> Self {
        const ADDRESS_TYPE: u32 = 3;
        const DESTINATION: u32 = 2;
        let fib = Attributes::default().number(1, REGISTER).number(2, ADDRESS_TYPE).number(3, DESTINATION);
        self.says("fib daddr type != local").expression("fib", &fib).compare(Comparison::NotEqual, &LOCAL.to_ne_bytes())
    }

    /// Matches the first packet of a TCP connection by its flags: of FIN, SYN, RST and ACK, only SYN is set.
    ///
    /// The kernel does not track a connection that was opened before our rules were loaded, or that was idle for longer
    /// than the tracking timeout. It takes the next packet of such a connection for a first packet. Without the
    /// check of the flags, the kernel would redirect that packet, and the peer would get a reset.
    fn begins_tcp(self) -> Self {
        self.says("tcp flags syn / fin,syn,rst,ack").load_flags(FIN | SYN | RST | ACK).equals(&[SYN])
    }

    /// Matches packets of TCP that do not have SYN set, or have ACK set too. The other packets of TCP are at least those
    /// of [`begins_tcp`](Self::begins_tcp), whatever their other flags.
    fn cannot_begin_tcp(self) -> Self {
        self.says("tcp flags != syn / syn,ack").load_flags(SYN | ACK).compare(Comparison::NotEqual, &[SYN])
    }

    fn tcp(self) -> Self {
        self.says("meta l4proto tcp").transport_tcp()
    }

    /// Matches TCP to a port within `range`.
    fn port(self, range: RangeInclusive<u16>) -> Self {
        let (first, last) = range.into_inner();
        if first == last {
            return self.says(format!("tcp dport {first}")).load_port().equals(&first.to_be_bytes());
        }
        let [low, high] = [first, last].map(|port| data(&port.to_be_bytes()));
        let range = Attributes::default().number(1, REGISTER).number(2, Comparison::Equal as u32);
        self.says(format!("tcp dport {first}-{last}"))
            .load_port()
            .expression("range", &range.nested(3, &low).nested(4, &high))
    }

    /// Matches destinations within `subnet`.
    fn destination(self, subnet: &Subnet) -> Self {
        let (name, family, offset, address) = match subnet.address {
            IpAddr::V4(address) => ("ip", 2, 16, address.octets().to_vec()),
            IpAddr::V6(address) => ("ip6", 10, 24, address.octets().to_vec()),
        };
        let length = u32::from(subnet.address.is_ipv6()) * 12 + 4;
        let mask: Vec<u8> = (0..address.len()).map(|index| mask_byte(subnet.prefix_bits, index)).collect();
        let masked: Vec<u8> = address.iter().zip(&mask).map(|(byte, mask)| byte & mask).collect();
        self.says(format!("{name} daddr {subnet}"))
            .meta(Meta::Family)
            .equals(&[family])
            .payload(Header::Network, offset, length)
            .masked(&mask)
            .equals(&masked)
    }

    fn then_return(self) -> Self {
        self.says("return").verdict(RETURN)
    }

    fn then_drop(self) -> Self {
        self.says("drop").verdict(DROP)
    }

    fn then_redirect(self, port: u16) -> Self {
        const HAS_PORT: u32 = 2;
        let load = Attributes::default().number(1, REGISTER).nested(2, &data(&port.to_be_bytes()));
        let redirect = Attributes::default().number(1, REGISTER).number(3, HAS_PORT);
        self.says(format!("redirect to :{port}")).expression("immediate", &load).expression("redir", &redirect)
    }

    fn says(mut self, words: impl Into<String>) -> Self {
        self.words.push(words.into());
        self
    }

    fn expression(mut self, name: &str, data: &Attributes) -> Self {
        const ELEMENT: u16 = 1;
        let expression = Attributes::default().text(1, name).nested(2, data);
        self.expressions = self.expressions.nested(ELEMENT, &expression);
        self
    }

    fn verdict(self, code: i32) -> Self {
        let verdict = Attributes::default().number(1, code.cast_unsigned());
        let value = Attributes::default().nested(2, &verdict);
        self.expression("immediate", &Attributes::default().number(1, VERDICT_REGISTER).nested(2, &value))
    }

    fn meta(self, key: Meta) -> Self {
        self.expression("meta", &Attributes::default().number(1, REGISTER).number(2, key as u32))
    }

    fn payload(self, header: Header, offset: u32, length: u32) -> Self {
        let payload =
            Attributes::default().number(1, REGISTER).number(2, header as u32).number(3, offset).number(4, length);
        self.expression("payload", &payload)
    }

    /// Clears the bits of the loaded value that are not set in `mask`.
    fn masked(self, mask: &[u8]) -> Self {
        let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        let zeros = vec![0; mask.len()];
        let bitwise = Attributes::default().number(1, REGISTER).number(2, REGISTER).number(3, length);
        self.expression("bitwise", &bitwise.nested(4, &data(mask)).nested(5, &data(&zeros)))
    }

    fn equals(self, value: &[u8]) -> Self {
        self.compare(Comparison::Equal, value)
    }

    fn compare(self, comparison: Comparison, value: &[u8]) -> Self {
        let compare = Attributes::default().number(1, REGISTER).number(2, comparison as u32).nested(3, &data(value));
        self.expression("cmp", &compare)
    }

    fn transport_tcp(self) -> Self {
        self.meta(Meta::Transport).equals(&[TCP])
    }

    /// Loads those flags of TCP that are set in `mask`.
    fn load_flags(self, mask: u8) -> Self {
        self.transport_tcp().payload(Header::Transport, FLAGS_OFFSET, 1).masked(&[mask])
    }

    /// Loads the destination port of TCP.
    fn load_port(self) -> Self {
        self.transport_tcp().payload(Header::Transport, 2, 2)
    }
}

/// Encodes a value for comparison or masking as a nested attribute of an expression.
fn data(value: &[u8]) -> Attributes {
    Attributes::default().bytes(1, value)
}

/// Returns the byte at `index` of a mask whose first `bits` bits are set.
fn mask_byte(bits: u8, index: usize) -> u8 {
    let before = u8::try_from(index * 8).unwrap_or(u8::MAX);
    match bits.saturating_sub(before) {
        0 => 0,
        set @ 1..8 => !(u8::MAX >> set),
        8.. => u8::MAX,
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
