//! Reads Leno's annotations of Services, EndpointSlices and TrafficPolicies.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::PolicyTarget;
use crate::balance::Policy;
use crate::manifest::Review;
use crate::mesh::{Controller, EndpointProxy};
use crate::problem::quoted;
use crate::protocol::PortRanges;
use crate::proxy::{self, CONNECT_TIMEOUTS};
use crate::settings::{Settings, format_duration, parse_duration};
use crate::spelling::closest;
use crate::spiffe::Workload;
use crate::traffic::status::TargetKind;
use crate::traffic::{NotAnObjective, Objectives};

/// The prefix of Leno's annotations and labels.
pub const PREFIX: &str = "leno.dev/";
const BALANCER: &str = "leno.dev/balancer";
const CONNECT_TIMEOUT: &str = "leno.dev/connect-timeout";
const MAX_CONNECTIONS: &str = "leno.dev/max-connections-per-endpoint";
const IDLE_TIMEOUT: &str = "leno.dev/idle-timeout";
const MAX_CONNECTION_AGE: &str = "leno.dev/max-connection-age";
/// On a Service or a Pod: the ports whose bytes the proxy relays without detecting their protocol.
pub const OPAQUE_PORTS: &str = "leno.dev/opaque-ports";
/// On a Service, or on a TrafficPolicy for Services: the objectives for the calls to the Service.
pub const OBJECTIVE: &str = "leno.dev/objective";
const HEADLESS: &str = "leno.dev/headless";
const SERVICE: [&str; 8] =
    [BALANCER, CONNECT_TIMEOUT, MAX_CONNECTIONS, IDLE_TIMEOUT, MAX_CONNECTION_AGE, OPAQUE_PORTS, OBJECTIVE, HEADLESS];

const IDENTITY: &str = "leno.dev/identity";
const INBOUND_PORT: &str = "leno.dev/inbound-port";
const TUNNEL_PORT: &str = "leno.dev/tunnel-port";
const CONTROLLER: &str = "leno.dev/controller";
const SLICE: [&str; 4] = [IDENTITY, INBOUND_PORT, TUNNEL_PORT, CONTROLLER];

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_CONNECTIONS_LIMIT: u16 = 1024;

/// The values of Leno's annotations on a Service.
#[derive(Default)]
pub(super) struct OfService {
    pub(super) balancer: Policy,
    pub(super) opaque_ports: PortRanges,
    pub(super) objectives: Option<Arc<Objectives>>,
    pub(super) settings: Settings,
    pub(super) headless: Option<Headless>,
}

/// The destination of calls to a headless Service's endpoints. `leno.dev/headless`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headless {
    /// `balanced`: the client took a random address from DNS, so its calls may go to any endpoint of the Service.
    Balanced,
    /// `direct`: the client has selected an endpoint, so its calls go to this endpoint.
    Direct,
}

/// The values of Leno's annotations on an EndpointSlice.
pub(super) struct OfSlice {
    pub(super) proxy: Option<EndpointProxy>,
    pub(super) controller: Option<Controller>,
}

type Annotations = BTreeMap<String, String>;

/// Reads a Service's annotations that begin with `leno.dev/`. Reports unknown and invalid annotations as mistakes. If
/// an annotation is invalid, its setting keeps the default.
pub(super) fn of_service(annotations: Option<&Annotations>, review: &mut Review<'_>) -> OfService {
    let mut read = OfService::default();
    let settings = &mut read.settings;
    for (key, value) in ours(annotations) {
        match key {
            BALANCER => match value.parse() {
                Ok(policy) => read.balancer = policy,
                Err(_) => {
                    let what = format!("{} is not a balancer", quoted(value));
                    let names = Policy::ALL.map(Policy::name).join(", ");
                    problem(review, key, what, &format!("use one of {names}"));
                }
            },
            CONNECT_TIMEOUT => {
                let range = CONNECT_TIMEOUTS.into_inner();
                read_duration(review, key, value, range, |read| {
                    settings.connect_timeout = read;
                });
            }
            IDLE_TIMEOUT => {
                let range = (SECOND, DAY);
                read_duration(review, key, value, range, |read| {
                    settings.idle_timeout = read;
                });
            }
            MAX_CONNECTION_AGE => {
                let range = (SECOND, 7 * DAY);
                read_duration(review, key, value, range, |read| {
                    settings.max_connection_age = Some(read);
                });
            }
            MAX_CONNECTIONS => match value.parse() {
                Ok(count @ 1..=MAX_CONNECTIONS_LIMIT) => {
                    settings.max_connections_per_endpoint = count;
                }
                _ => {
                    let what = format!("{} is not a number of connections", quoted(value));
                    problem(review, key, what, &format!("use 1 to {MAX_CONNECTIONS_LIMIT}"));
                }
            },
            OPAQUE_PORTS => match value.parse() {
                Ok(ports) => read.opaque_ports = ports,
                Err(_) => {
                    let what = format!("{} is not a list of ports", quoted(value));
                    problem(review, key, what, "use 1 to 65535 and ranges, for example 3306,9000-9010");
                }
            },
            OBJECTIVE => read.objectives = read_objectives(review, value),
            HEADLESS => match value {
                "balanced" => read.headless = Some(Headless::Balanced),
                "direct" => read.headless = Some(Headless::Direct),
                _ => {
                    let what = format!("{} is not a destination of calls to endpoints", quoted(value));
                    problem(review, key, what, "use balanced or direct");
                }
            },
            unknown => unknown_annotation(review, unknown, &SERVICE),
        }
    }
    read
}

/// Reads a TrafficPolicy's annotations that begin with `leno.dev/`. Reports an unknown or invalid annotation as a
/// mistake.
///
/// An objective is also a mistake if the policy selects a route: an objective applies to all calls of a Service,
/// because the metrics of a method name its Service, but not its route.
pub(super) fn of_policy(
    annotations: Option<&Annotations>,
    targets: &[PolicyTarget],
    review: &mut Review<'_>,
) -> Option<Arc<Objectives>> {
    let mut objectives = None;
    for (key, value) in ours(annotations) {
        match key {
            OBJECTIVE => objectives = read_objectives(review, value),
            unknown => unknown_annotation(review, unknown, &[OBJECTIVE]),
        }
    }
    let route = targets.iter().find(|target| target.reference.kind != TargetKind::Service);
    if let Some(target) = route.filter(|_| objectives.is_some()) {
        let what =
            format!("an objective is for all calls to a Service, and a target is {}", target.reference.kind.name());
        let fix = "move it to the Service, or to a policy for the Service";
        problem(review, OBJECTIVE, what, fix);
    }
    objectives
}

/// Reads an EndpointSlice's annotations that begin with `leno.dev/`. Reports an unknown or invalid annotation as a
/// mistake. `None` if the slice declares proxies without a valid identity.
///
/// A slice from an API server must not declare proxies, because it may list any address. A user who may write slices in
/// one namespace could otherwise choose the proxy for the address of another workload or of a node.
pub(super) fn of_slice(annotations: Option<&Annotations>, review: &mut Review<'_>) -> Option<OfSlice> {
    let (mut identity, mut inbound_port, mut tunnel_port, mut controller) = (None, None, None, None);
    let mut has_identity = false;
    for (key, value) in ours(annotations) {
        match key {
            IDENTITY => {
                has_identity = true;
                identity = read_identity(review, value);
            }
            INBOUND_PORT => inbound_port = read_port(review, key, value),
            TUNNEL_PORT => tunnel_port = read_port(review, key, value),
            CONTROLLER => controller = read_controller(review, value),
            unknown => unknown_annotation(review, unknown, &SLICE),
        }
    }
    if let (false, Some((key, _))) =
        (has_identity, ours(annotations).find(|(key, _)| [INBOUND_PORT, TUNNEL_PORT].contains(key)))
    {
        let what = "a port of proxies without their identity".to_owned();
        problem(review, key, what, &format!("add {IDENTITY}, the identity of the workload behind the proxies"));
        return None;
    }
    if has_identity && identity.is_none() {
        return None;
    }
    let tunnel_port = tunnel_port.unwrap_or(proxy::TUNNEL_PORT);
    let mut proxy = identity.map(|identity| EndpointProxy { identity, inbound_port, tunnel_port });
    if review.is_typed() && proxy.take().is_some() {
        let what = "in a cluster, only a Pod has a proxy, and the control plane finds it without annotations";
        problem(review, IDENTITY, what.to_owned(), "remove it");
    }
    Some(OfSlice { proxy, controller })
}

/// Returns the annotations of ours, with their values.
pub(crate) fn ours(annotations: Option<&Annotations>) -> impl Iterator<Item = (&str, &str)> {
    let all = annotations.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    all.filter(|(key, _)| key.starts_with(PREFIX))
}

fn unknown_annotation(review: &mut Review<'_>, key: &str, known: &[&str]) {
    let fix = match closest(key, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("use one of {}", known.join(", ")),
    };
    problem(review, key, "there is no such annotation".to_owned(), &fix);
}

fn read_identity(review: &mut Review<'_>, value: &str) -> Option<Workload> {
    read(review, IDENTITY, value, ("a workload", "write ns/<namespace>/sa/<service-account>"))
}

fn read_controller(review: &mut Review<'_>, value: &str) -> Option<Controller> {
    read(review, CONTROLLER, value, ("the controller of Pods", "write a kind and a name, as deployment/cart"))
}

fn read_port(review: &mut Review<'_>, key: &str, value: &str) -> Option<u16> {
    read(review, key, value, ("a port", "use 1 to 65535")).map(NonZeroU16::get)
}

/// Parses a value, or reports it as invalid. `wanted` contains two texts for the report: a description of valid values,
/// and the fix.
fn read<T: FromStr>(review: &mut Review<'_>, key: &str, value: &str, wanted: (&str, &str)) -> Option<T> {
    let read = value.parse().ok();
    if read.is_none() {
        problem(review, key, format!("{} is not {}", quoted(value), wanted.0), wanted.1);
    }
    read
}

fn read_objectives(review: &mut Review<'_>, value: &str) -> Option<Arc<Objectives>> {
    match Objectives::read(value, review.object().into()) {
        Ok(objectives) => Some(Arc::new(objectives)),
        Err(NotAnObjective { what, fix }) => {
            problem(review, OBJECTIVE, what, &fix);
            None
        }
    }
}

fn read_duration(
    review: &mut Review<'_>,
    key: &str,
    value: &str,
    (min, max): (Duration, Duration),
    set: impl FnOnce(Duration),
) {
    let range = format!("use {} to {}", format_duration(min), format_duration(max));
    match parse_duration(value) {
        Some(duration) if (min..=max).contains(&duration) => set(duration),
        Some(_) => problem(review, key, format!("{value} is out of range"), &range),
        None => {
            let what = format!("{} is not a duration such as 1m30s or 500ms", quoted(value));
            problem(review, key, what, &range);
        }
    }
}

fn problem(review: &mut Review<'_>, key: &str, what: String, fix: &str) {
    review.problem(&format!("metadata.annotations[\"{key}\"]"), what, fix);
}
