//! Formats an explanation as text: first a line with the outcome of the call, then its steps in a fixed order.

use leno_model::explain::{CallQuestion, CallSide};
use leno_model::policy::{DecidedBy, PolicyLines, PortExplanation, Verdict};
use leno_relay::explain::answer::{BackendChoice, CallAnswer, Outbound, Outcome, RouteChoice};
use serde_json::json;

use super::{Explained, Server};
use crate::cluster::printable::{line, listed};
use crate::cluster::traffic::part::parts;

/// Maximum width of a line, in characters.
const WIDTH: usize = 140;
/// Width of the label before the text of a line, in characters.
const LABEL_WIDTH: usize = 10;
/// Maximum number of items of each list that the text shows: endpoints of a backend, lines of a policy, other callers.
const SHOWN_MAX: usize = 8;

/// Returns whether the call would reach an application, at whichever backend the proxy chooses. Returns false if the
/// answer of an endpoint's proxy is unknown, because this proxy may deny the call.
pub(super) fn is_sent(explained: &Explained) -> bool {
    explained.answer.outcome == Outcome::Sent
        && explained.answer.outbound.iter().flat_map(|outbound| &outbound.backends).all(|it| it.failure.is_none())
        && explained.servers.iter().filter_map(|server| server.answer.as_ref()).all(|it| it.outcome == Outcome::Sent)
        && !explained.servers.iter().any(|server| server.is_unknown)
}

pub(super) fn text(explained: &Explained) -> String {
    let mut story = Story::default();
    story.add("", &verdict(explained));
    story.text.push('\n');
    let question = &explained.question;
    let mut call = format!("{} {}", question.method, question.path);
    for (name, value) in &question.headers {
        call += &format!(", {name}: {value}");
    }
    story.add("call", &call);
    let own = explained.answer.own.as_deref().unwrap_or("no identity");
    story.add("caller", &format!("{own}, as {} says{}", explained.asked, others(explained)));
    if let Some(outbound) = &explained.answer.outbound {
        tell_outbound(&mut story, outbound, question);
    }
    for server in &explained.servers {
        tell_server(&mut story, server);
    }
    story.text
}

/// Returns the text after the caller in the line `caller`: the other callers that the user can choose with `--from`.
fn others(explained: &Explained) -> String {
    let others: Vec<&str> = explained.other_callers.iter().map(String::as_str).take(SHOWN_MAX).collect();
    let omitted = explained.other_callers.len() - others.len();
    match others.is_empty() {
        true => String::new(),
        false => format!("; --from chooses another caller: {}", listed(&others, omitted)),
    }
}

/// Returns the first line of the text, which states what would happen to the call.
fn verdict(explained: &Explained) -> String {
    match &explained.answer.outcome {
        Outcome::Redirected { status, location } => format!("would be redirected with {status} to {location}"),
        Outcome::Failed(failure) => {
            let statuses = format!("HTTP {} or gRPC status {}", failure.http_status, failure.grpc_status);
            format!("would fail with {}: {} ({statuses})", failure.error, failure.why)
        }
        Outcome::Unknown { subject } => {
            format!(
                "is unknown: the control plane has not said within 2 s what {subject} is; check leno-control, then ask again"
            )
        }
        Outcome::Sent => ends(explained),
    }
}

/// Returns what would happen at each backend to which the caller's proxy may send the call. If there are several
/// backends, the text names the share of the calls that each backend gets.
fn ends(explained: &Explained) -> String {
    let (mut reached, mut failed, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (backend, server) in explained.ends() {
        let share = if backend.share < 1.0 { format!(", {}", percent(backend.share)) } else { String::new() };
        let of = format!("({}{share})", backend.to);
        let Some(choice) = &backend.choice else {
            let error = backend.failure.as_ref().map_or("", |failure| &failure.error);
            failed.push(format!("fail with {error} {of}"));
            continue;
        };
        let asked = server.and_then(|server| server.answer.as_ref().map(|answer| (server, answer, &answer.outcome)));
        match asked {
            Some((server, answer, Outcome::Failed(failure))) if failure.error == "denied" => {
                failed.push(format!("be denied at {} {of} by {}", server.endpoint, decider(answer)));
            }
            Some((server, _, Outcome::Failed(failure))) => {
                failed.push(format!("fail at {} {of}: {}", server.endpoint, failure.why));
            }
            _ => {
                reached.push(format!("{} {of}", choice.address));
                let is_waiting = matches!(asked, Some((_, _, Outcome::Unknown { .. })));
                unknown.extend(server.filter(|server| server.is_unknown || is_waiting).map(|it| it.endpoint.as_str()));
            }
        }
    }
    let mut would = Vec::new();
    if !reached.is_empty() {
        would.push(format!("go to {}", reached.join(" or ")));
    }
    would.extend(failed);
    let but = match unknown.is_empty() {
        true => String::new(),
        false => format!(", but the policies of {} are unknown", unknown.join(" and ")),
    };
    format!("would {}{but}", would.join(", or "))
}

/// Returns the policy that denies a call.
fn decider(answer: &CallAnswer) -> String {
    let policy = answer.inbound.as_ref().and_then(|inbound| inbound.policy.as_ref());
    match policy.map(|policy| &policy.decided_by) {
        Some(DecidedBy::AuthorizationPolicy(name)) => {
            let lines = policy.and_then(|policy| policy.policies.iter().find(|lines| lines.name == *name));
            let allows = lines.map_or_else(String::new, |lines| format!(", which {}", allowed(lines)));
            format!("AuthorizationPolicy {name}{allows}")
        }
        Some(DecidedBy::Default(name)) => format!("the default inbound policy {name}"),
        Some(DecidedBy::Probe) | None => "its proxy".to_owned(),
    }
}

/// Describes which callers a policy allows, for example `allows only ns/shop/sa/web`.
fn allowed(policy: &PolicyLines) -> String {
    if policy.mode == "Unreadable" {
        return "cannot be read and allows no caller".to_owned();
    }
    let values: Vec<&str> = policy.lines.iter().take(SHOWN_MAX).map(|line| line.value.as_str()).collect();
    let omitted = (policy.lines.len() + policy.omitted).saturating_sub(SHOWN_MAX);
    match values.is_empty() {
        true => "allows no caller".to_owned(),
        false => format!("allows only {}", listed(&values, omitted)),
    }
}

/// Returns the text after the destination: how the proxy treats it.
fn treatment(outbound: &Outbound, question: &CallQuestion) -> String {
    match (outbound.is_service, &outbound.endpoint_of) {
        (true, Some(_)) => {
            let dialled = match &question.side {
                CallSide::Outbound { address: Some(address), .. } => address.to_string(),
                CallSide::Outbound { .. } | CallSide::Inbound { .. } => "an endpoint".to_owned(),
            };
            format!(", headless: the client dials {dialled}, and its calls in HTTP/2 are balanced over the Service")
        }
        (false, Some(service)) => {
            let how = match outbound.is_balanced_in_http2 {
                true => "only calls in HTTP/2, as gRPC clients make them, are balanced over the Service",
                false => "its calls are not balanced over the Service",
            };
            format!(", an endpoint of {service} that the client dials: {how}")
        }
        (true, None) if outbound.is_opaque => ", whose connections are opaque: no route of requests applies".to_owned(),
        (true, None) => String::new(),
        (false, None) => ", which is no Service".to_owned(),
    }
}

fn tell_outbound(story: &mut Story, outbound: &Outbound, question: &CallQuestion) {
    story.add("service", &format!("{}{}", outbound.destination, treatment(outbound, question)));
    match &outbound.route {
        None => story.add("route", "none: no route and no TrafficPolicy applies"),
        Some(route) => tell_route(story, route),
    }
    outbound.changes.iter().for_each(|change| story.add("changes", change));
    outbound.mirrors.iter().for_each(|mirror| story.add("copies", mirror));
    tell_limits(story, outbound, &question.path);
    for backend in &outbound.backends {
        tell_backend(story, backend);
    }
}

fn tell_route(story: &mut Story, route: &RouteChoice) {
    let named = |rule: &Option<String>| rule.as_ref().map_or_else(String::new, |rule| format!(", rule {rule}"));
    match (&route.route, &route.matched) {
        (Some(name), Some(matched)) => story.add("route", &format!("{name}{}: {matched}", named(&route.rule))),
        (None, Some(_)) => story.add("route", "none: only the TrafficPolicies of the Service apply"),
        (_, None) => story.add("route", &format!("none: no rule of the {}s matches", route.kind)),
    }
    for passed in &route.passed_over {
        story.add("", &format!("not {}{}: {}", passed.route, named(&passed.rule), passed.why));
    }
    if route.omitted > 0 {
        story.add("", &format!("nor {} more rules", route.omitted));
    }
}

fn tell_limits(story: &mut Story, outbound: &Outbound, path: &str) {
    match (outbound.deadline_ms, &outbound.deadline_set_by) {
        (Some(ms), Some(by)) => story.add("deadline", &format!("{ms} ms, set by {by}")),
        _ => story.add("deadline", "none: neither the client nor a policy sets one"),
    }
    let clusters = outbound.backends.iter().filter(|backend| !backend.retry_budget.is_null());
    let clusters: Vec<_> =
        clusters.map(|backend| json!({"key": backend.to, "retry_budget": backend.retry_budget})).collect();
    let backends: Vec<_> = outbound.backends.iter().map(|backend| json!({"to": {"cluster": backend.to}})).collect();
    let config = json!({"mesh": {"clusters": clusters}});
    let rule = json!({"calls": outbound.calls, "backends": backends});
    for part in parts(&config, &rule, path.strip_prefix('/')) {
        if part.part == "hedge" && !outbound.is_hedged {
            continue;
        }
        let of = part.of.as_ref().map_or_else(String::new, |of| format!(" of {of}"));
        let mode = if part.mode == "Enforce" { String::new() } else { format!(" ({})", part.mode) };
        let by = part.set_by.as_deref().unwrap_or("the default");
        story.add("policy", &format!("{}{of}{mode}: {}, set by {by}", part.part, part.text()));
    }
    let calls = format!("{} of {} calls in flight (max_calls)", outbound.calls_in_flight, outbound.max_calls);
    story.add("limits", &calls);
}

fn tell_backend(story: &mut Story, backend: &BackendChoice) {
    let unready = if backend.unready > 0 { format!(", {} not ready", backend.unready) } else { String::new() };
    let share = percent(backend.share);
    if backend.balancer.is_empty() {
        let why = backend.failure.as_ref().map_or("", |failure| &failure.why);
        return story.add("backend", &format!("{} gets {share} of the calls: {why}", backend.to));
    }
    let count = backend.endpoints.len() + backend.omitted;
    let noun = if count == 1 { "endpoint" } else { "endpoints" };
    let text = format!(
        "{} gets {share} of the calls; {count} {noun}{unready}, balanced by {}; {} ms to connect",
        backend.to, backend.balancer, backend.connect_timeout_ms
    );
    story.add("backend", &text);
    if let Some(delay) = &backend.hedge_delay {
        story.add("hedge", delay);
    }
    if let (Some(objective), Some(by)) = (&backend.objective, &backend.objective_set_by) {
        story.add("objective", &format!("{objective}, set by {by}"));
    }
    match (&backend.choice, &backend.failure) {
        (Some(choice), _) => {
            let pod = in_pod(choice.pod.as_deref());
            let to =
                choice.server.as_ref().map_or("without mutual TLS".to_owned(), |id| format!("over mutual TLS to {id}"));
            story.add("endpoint", &format!("{}{pod}, {to}: {}", choice.address, choice.why));
        }
        (None, Some(failure)) => story.add("endpoint", &format!("none: {}", failure.why)),
        (None, None) => {}
    }
    for endpoint in backend.endpoints.iter().take(SHOWN_MAX) {
        let failed =
            endpoint.last_connect_error.as_ref().map_or_else(String::new, |why| format!("; last failure: {why}"));
        let silent = if endpoint.is_silent { "; it has not answered a PING" } else { "" };
        let text = format!(
            "{}{} is {}, weight {:.2}, {} in flight, {} waiting: {}{silent}{failed}",
            endpoint.address,
            in_pod(endpoint.pod.as_deref()),
            endpoint.state,
            endpoint.weight,
            endpoint.in_flight,
            endpoint.waiting,
            endpoint.reason
        );
        story.add("", &text);
    }
    if let Some(more @ 1..) = count.checked_sub(SHOWN_MAX) {
        story.add("", &format!("and {more} more"));
    }
}

/// Formats the Pod of an endpoint as a suffix to the endpoint's address; empty if the endpoint is not a Pod.
pub(super) fn in_pod(pod: Option<&str>) -> String {
    pod.map_or_else(String::new, |pod| format!(" (Pod {pod})"))
}

fn tell_server(story: &mut Story, server: &Server) {
    let to = format!("{} ({})", server.endpoint, server.backend);
    let inbound = server.answer.as_ref().and_then(|answer| answer.inbound.as_ref());
    let Some(inbound) = inbound else {
        let note =
            server.note.as_deref().unwrap_or("its proxy waits for its policies; check leno-control, then ask again");
        return story.add("policies", &format!("{to}: {note}"));
    };
    let Some(policy) = &inbound.policy else {
        return story.add("policies", &format!("{to}: its proxy has no identity, so it enforces no policy"));
    };
    story.add("policies", &format!("{to}: {}", decision(&inbound.caller, policy)));
    for lines in &policy.policies {
        let mode = if lines.mode == "Enforce" { String::new() } else { format!(" ({})", lines.mode) };
        story.add("", &format!("AuthorizationPolicy {}{mode}, for {}, {}", lines.name, lines.target, allowed(lines)));
    }
}

fn decision(caller: &str, policy: &PortExplanation) -> String {
    let by = match &policy.decided_by {
        DecidedBy::AuthorizationPolicy(name) => {
            let line = policy.policies.iter().find(|lines| lines.name == *name).and_then(|it| it.allowed_by.as_ref());
            let line = line.map_or_else(String::new, |line| format!(", {} ({})", line.field, line.value));
            format!("AuthorizationPolicy {name}{line}")
        }
        DecidedBy::Default(name) => format!("the default inbound policy {name}"),
        DecidedBy::Probe => "the Pod's spec, as a probe".to_owned(),
    };
    match (policy.verdict, &policy.reason) {
        (Verdict::Allowed, _) => format!("{caller} is allowed by {by}"),
        (Verdict::Audited, Some(reason)) => format!("{caller} is allowed by {by}, and logged: {reason}"),
        (Verdict::Audited, None) => format!("{caller} is allowed by {by}, and logged"),
        (Verdict::Denied, reason) => format!("{caller} is denied: {}", reason.as_deref().unwrap_or(&by)),
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.005 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

/// Cuts a word into pieces that each fit on a line.
fn pieces(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    letters.chunks(WIDTH - LABEL_WIDTH - 1).map(|piece| piece.iter().collect()).collect()
}

/// The text of the explanation. Each line begins with a label.
#[derive(Default)]
struct Story {
    text: String,
}

impl Story {
    /// Adds a line. Wraps it between words if it is wider than [`WIDTH`], and replaces characters that are not safe to
    /// print.
    fn add(&mut self, label: &str, text: &str) {
        let is_verdict = self.text.is_empty();
        let indent = if is_verdict { 0 } else { LABEL_WIDTH + 1 };
        let mut row = if is_verdict { String::new() } else { format!("{label:<LABEL_WIDTH$}") };
        let mut width = row.chars().count();
        let safe = line(text);
        for word in safe.split(' ').flat_map(pieces) {
            let length = word.chars().count();
            if width > indent && width + 1 + length > WIDTH {
                self.text += row.trim_end();
                self.text.push('\n');
                row = " ".repeat(indent.saturating_sub(1));
                width = row.chars().count();
            }
            if !row.is_empty() || (!is_verdict && width > 0) {
                row.push(' ');
                width += 1;
            }
            row += &word;
            width += length;
        }
        self.text += row.trim_end();
        self.text.push('\n');
    }
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
