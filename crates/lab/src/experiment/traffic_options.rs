//! The options of `leno lab run` for the traffic: the kind of calls, their sizes, and the times at which they are sent.

use super::cases::Case;
use super::chain;
use super::methods::SLOW_METHOD_MS;
use super::options::{Options, Rate, refuse};
use super::record::{Protocol, Scenario};
use crate::echo::MAX_PAYLOAD_BYTES;
use crate::error::{Error, Result};
use crate::load::{Arrivals, LAST_ANSWERS, Shape, Traffic, WarmUpRate};

/// Payload of each request and of each answer in the scenario `crowd`, in bytes.
const CROWD_PAYLOAD_BYTES: u32 = 1024;
/// Length of the answer's content in the scenario `ladder`, in bytes: the length of `hello world`.
const HELLO_BYTES: u32 = 11;
/// Number of messages of a stream in the scenario `streams`.
const LONG_STREAM_MESSAGES: u32 = 1000;
/// Default number of messages of a stream.
const USUAL_MESSAGES: u32 = 100;

/// Options for the traffic.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct TrafficOptions {
    /// Messages of a gRPC exchange [default: unary; in streams bidi-stream]
    #[arg(long, value_enum, value_name = "NAME")]
    pub exchange: Option<Shape>,
    /// Messages of each stream; with --exchange bidi-stream the client sends the next one after each answer
    /// [default: 100; in streams 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages: Option<u32>,
    /// Payload of each request message, in bytes [default: 50; in crowd 1024; in ladder 0]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_PAYLOAD_BYTES)))]
    pub payload_bytes: Option<u32>,
    /// Payload of each answer message, in bytes [default: as in the request; in ladder 11]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAYLOAD_BYTES)))]
    pub response_bytes: Option<u32>,
    /// Arrivals of calls with --rate: evenly spaced, or random as from many independent clients [default: constant]
    #[arg(long, value_enum, value_name = "NAME")]
    pub arrivals: Option<Arrivals>,
    /// Rate during the warm-up with --rate: the same, half of it, or rising linearly from 0 [default: full; in ladder
    /// half]
    #[arg(long, value_enum, value_name = "NAME")]
    pub warm_up_rate: Option<WarmUpRate>,
}

impl TrafficOptions {
    /// Returns the traffic that the options describe. The scenario's defaults replace missing options.
    pub(super) fn traffic(&self, scenario: Scenario) -> Traffic {
        let usual = usual(scenario);
        let request_bytes = self.payload_bytes.unwrap_or(usual.request_bytes);
        Traffic {
            shape: self.exchange.unwrap_or(usual.shape),
            messages: self.messages.unwrap_or(usual.messages),
            request_bytes,
            response_bytes: match (self.response_bytes, self.payload_bytes) {
                (Some(bytes), _) | (None, Some(bytes)) => bytes,
                (None, None) => usual.response_bytes,
            },
            delay_ms: usual.delay_ms,
            arrivals: self.arrivals.unwrap_or(usual.arrivals),
            warm_up_rate: self.warm_up_rate.unwrap_or(usual.warm_up_rate),
        }
    }

    /// Returns the name of the first traffic option that the user gave, if any.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.exchange.is_some(), "--exchange"),
            (self.messages.is_some(), "--messages"),
            (self.payload_bytes.is_some(), "--payload-bytes"),
            (self.response_bytes.is_some(), "--response-bytes"),
            (self.arrivals.is_some(), "--arrivals"),
            (self.warm_up_rate.is_some(), "--warm-up-rate"),
        ];
        given.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// Returns the first given option that has an effect only in an open loop, if any.
    fn first_of_open_loop(&self) -> Option<&'static str> {
        let arrivals = self.arrivals.map(|_| "--arrivals");
        arrivals.or(self.warm_up_rate.map(|_| "--warm-up-rate"))
    }
}

fn usual(scenario: Scenario) -> Traffic {
    let traffic = Traffic { messages: USUAL_MESSAGES, ..Traffic::default() };
    match scenario {
        Scenario::Ladder => {
            Traffic { request_bytes: 0, response_bytes: HELLO_BYTES, warm_up_rate: WarmUpRate::Half, ..traffic }
        }
        Scenario::Crowd => {
            Traffic { request_bytes: CROWD_PAYLOAD_BYTES, response_bytes: CROWD_PAYLOAD_BYTES, ..traffic }
        }
        Scenario::Streams => Traffic { shape: Shape::BidiStream, messages: LONG_STREAM_MESSAGES, ..traffic },
        _ => traffic,
    }
}

/// Rejects traffic options that have no effect or contradict each other.
pub(super) fn refuse_impossible_traffic(options: &Options) -> Result<()> {
    let (scenario, traffic) = (options.scenario, &options.traffic);
    if !scenario.has_calls() || scenario == Scenario::Memory {
        let why =
            if scenario == Scenario::Memory { "its burst has unary calls of 50 bytes" } else { "it makes no calls" };
        return traffic.first_given().map_or(Ok(()), |flag| refuse(true, flag, scenario, why));
    }
    let shape = traffic.traffic(scenario).shape;
    if options.protocol() != Protocol::Grpc && shape != Shape::Unary {
        return usage("--exchange selects gRPC streams, and --protocol has none; use --protocol grpc".to_owned());
    }
    if scenario == Scenario::Streams && shape == Shape::Unary {
        return usage("--exchange unary has no streams, which streams measures; use bidi-stream".to_owned());
    }
    if scenario == Scenario::Methods && traffic.exchange.is_some() {
        return refuse(
            true,
            "--exchange",
            scenario,
            "its fast method is unary and its slow one a stream of one message",
        );
    }
    if traffic.messages.is_some() && shape == Shape::Unary {
        let what = "--messages means nothing in a unary call; use --exchange server-stream or bidi-stream";
        return usage(what.to_owned());
    }
    if let Some(flag) = traffic.first_of_open_loop()
        && options.rates().is_some_and(|rates| rates.contains(&Rate::Max))
    {
        return usage(format!("{flag} means nothing with --rate max; give --rate calls per second"));
    }
    Ok(())
}

/// Rejects cases in which a call may take longer than the load waits for its last answers. The report would count such
/// calls as failed.
pub(super) fn refuse_endless_calls(options: &Options, cases: &[Case]) -> Result<()> {
    let scenario = options.scenario;
    // The scenario `memory` needs no check: it waits longer for the answers to its burst of calls.
    if !scenario.has_calls() || scenario == Scenario::Memory {
        return Ok(());
    }
    let traffic = options.traffic.traffic(scenario);
    let messages = if traffic.shape == Shape::ServerStream { traffic.messages } else { 1 };
    let message_ms = cases.iter().map(|case| message_ms(options, case)).max().unwrap_or_default();
    let call_ms = u64::from(messages) * message_ms;
    let limit_ms = LAST_ANSWERS.as_millis() as u64;
    if call_ms < limit_ms {
        return Ok(());
    }
    let given = [
        (options.work_ms > 0, "--work-ms"),
        (options.spread_ms > 0, "--spread-ms"),
        (cases.iter().any(|case| case.skew_ms > 0), "--skew-ms"),
        (cases.iter().any(|case| case.condition.fault.slow_ms() > 0), "--slow-ms"),
        (scenario == Scenario::Graph, "--depth"),
    ];
    let delays: Vec<&str> = given.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag)).collect();
    let lower = format!("lower {}", delays.join(" or "));
    let (what, fix) = match (limit_ms - 1) / message_ms {
        _ if messages == 1 => ("a call may take".to_owned(), lower),
        0 => (format!("a stream of {messages} messages may take"), lower),
        fewer => (
            format!("a stream of {messages} messages may take"),
            format!("use --messages {fewer} or fewer, or {lower}"),
        ),
    };
    usage(format!(
        "{what} {call_ms} ms, but must take less than {limit_ms} ms, because the load waits no longer for its last \
         answers; {fix}"
    ))
}

/// Returns the longest time, in ms, that the servers need for one message of a case.
fn message_ms(options: &Options, case: &Case) -> u64 {
    // In a graph or a chain, a message passes one service of each level after the other, so the times add up.
    let services = match options.scenario {
        Scenario::Graph => options.graph.shape().depth,
        _ if case.condition.fault.is_chain() => chain::SERVICES,
        _ => 1,
    };
    let of_method = if options.scenario == Scenario::Methods { SLOW_METHOD_MS } else { 0 };
    let work_ms = u64::from(services) * (u64::from(options.work_ms) + u64::from(options.spread_ms));
    work_ms + u64::from(case.skew_ms) + u64::from(case.condition.fault.slow_ms()) + u64::from(of_method)
}

fn usage(what: String) -> Result<()> {
    Err(Error::Usage(what))
}

#[cfg(test)]
#[path = "traffic_options_tests.rs"]
mod tests;
