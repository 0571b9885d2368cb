//! The condition of a run: the servers' random fault (failures or delays), and whether the proxies retry or hedge
//! calls.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::record::TargetKind;

/// The fault of the servers, and the policy of the proxies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    pub fault: Fault,
    pub policy: CallPolicy,
}

/// The servers' fault, in addition to the skew (one server's additional latency).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    #[default]
    None,
    /// One server delays `percent` % of its answers by `slow_ms`.
    SlowAtTimes { percent: u32, slow_ms: u32 },
    /// Every server delays `percent` % of its answers by `slow_ms`. No balancer can avoid the delay, because no server
    /// is free of it.
    AllSlowAtTimes { percent: u32, slow_ms: u32 },
    /// Every server fails `percent` % of its calls with UNAVAILABLE.
    Failing { percent: u32 },
    /// Calls pass through two services before they reach servers that fail every call. So three proxies in a row may
    /// retry.
    Chain,
    /// Like `Chain`, but the services forward the fields with which a proxy asks its caller not to retry.
    ForwardingChain,
    /// Like `Chain`, but the proxy beside each service relays both the requests to the service and the service's own
    /// calls. From a request, the services copy only the trace context to their calls.
    TracedChain,
}

/// The way in which the proxies send a call: once, with retries, or with a hedge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallPolicy {
    /// Send the call once.
    #[default]
    Once,
    /// Retry the call, within the proxy's default budget or limit.
    Retry,
    /// Retry the call, with a budget or limit that the retries of this lab do not reach.
    RetryUnlimited,
    /// Send the call to a second endpoint after a delay.
    Hedge(HedgeDelay),
}

/// The delay of a hedge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum HedgeDelay {
    /// A percentile of the method's own latencies, in tenths: 999 is p99.9.
    Percentile(u16),
    Ms(u32),
}

impl Condition {
    /// Returns whether this is the default condition: servers without a random fault, and proxies that send each call
    /// once.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// A short name for files: letters, digits and hyphens.
    pub(crate) fn short_name(self) -> String {
        let fault = match self.fault {
            Fault::None => String::new(),
            Fault::SlowAtTimes { percent, slow_ms } => format!("slow{percent}-{slow_ms}ms-"),
            Fault::AllSlowAtTimes { percent, slow_ms } => format!("all-slow{percent}-{slow_ms}ms-"),
            Fault::Failing { percent } => format!("fail{percent}-"),
            Fault::Chain => "chain-".to_owned(),
            Fault::ForwardingChain => "fwd-chain-".to_owned(),
            Fault::TracedChain => "traced-chain-".to_owned(),
        };
        let policy = match self.policy {
            CallPolicy::Once => "once".to_owned(),
            CallPolicy::Retry => "retry".to_owned(),
            CallPolicy::RetryUnlimited => "unlimited".to_owned(),
            CallPolicy::Hedge(delay) => delay.to_string().replace('.', "-"),
        };
        fault + &policy
    }

    /// Returns whether a target can run under this condition.
    pub(super) fn fits(self, target: TargetKind) -> bool {
        // In these two chains, the services copy header fields: in one from a request to their own calls, in the other
        // from an answer to their own answer. Only Leno's proxies use the copied fields to stop retries.
        let is_for_leno = matches!(self.fault, Fault::ForwardingChain | Fault::TracedChain);
        (target.is_leno() || !is_for_leno)
            && match self.policy {
                CallPolicy::Once => true,
                CallPolicy::Retry | CallPolicy::RetryUnlimited => target.can_retry(),
                CallPolicy::Hedge(_) => target.is_leno(),
            }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::None => write!(f, "{}", self.policy),
            fault => write!(f, "{fault}; {}", self.policy),
        }
    }
}

impl Fault {
    pub(crate) fn is_chain(self) -> bool {
        matches!(self, Self::Chain | Self::ForwardingChain | Self::TracedChain)
    }

    /// The delay that the fault adds to some answers of a server, in ms; 0 if the fault delays no answers.
    pub(super) fn slow_ms(self) -> u32 {
        match self {
            Self::SlowAtTimes { slow_ms, .. } | Self::AllSlowAtTimes { slow_ms, .. } => slow_ms,
            Self::None | Self::Failing { .. } | Self::Chain | Self::ForwardingChain | Self::TracedChain => 0,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no failures"),
            Self::SlowAtTimes { percent, slow_ms } => {
                write!(f, "{percent} % of one server's calls {slow_ms} ms slower")
            }
            Self::AllSlowAtTimes { percent, slow_ms } => {
                write!(f, "{percent} % of all servers' calls {slow_ms} ms slower")
            }
            Self::Failing { percent } => write!(f, "servers fail {percent} %"),
            Self::Chain => f.write_str("chain of three proxies, the last servers fail"),
            Self::ForwardingChain => f.write_str("the same chain, services forward pushback"),
            Self::TracedChain => f.write_str("the same chain with sidecars, services copy only the trace"),
        }
    }
}

impl fmt::Display for CallPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once => f.write_str("sent once"),
            Self::Retry => f.write_str("retries"),
            Self::RetryUnlimited => f.write_str("retries without limit"),
            Self::Hedge(delay) => write!(f, "hedge {delay}"),
        }
    }
}

/// Parses `off`, or the delay of a hedge.
pub(super) fn parse_hedge(text: &str) -> Result<CallPolicy, String> {
    if text == "off" { Ok(CallPolicy::Once) } else { text.parse().map(CallPolicy::Hedge) }
}

impl FromStr for HedgeDelay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a delay; write p50 to p99.9, such as p95, or 1ms to 60000ms");
        if let Some(percentile) = text.strip_prefix('p') {
            let (whole, tenth) = percentile.split_once('.').unwrap_or((percentile, "0"));
            let is_number = |digits: &str, length| digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit());
            if !is_number(whole, 2) || !is_number(tenth, 1) {
                return Err(wrong());
            }
            let tenths = format!("{whole}{tenth}").parse().map_err(|_| wrong())?;
            return if tenths >= 500 { Ok(Self::Percentile(tenths)) } else { Err(wrong()) };
        }
        let ms = text.strip_suffix("ms").and_then(|ms| ms.parse().ok());
        ms.filter(|ms| (1..=60_000).contains(ms)).map(Self::Ms).ok_or_else(wrong)
    }
}

impl fmt::Display for HedgeDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(tenths) if tenths % 10 == 0 => write!(f, "p{}", tenths / 10),
            Self::Percentile(tenths) => write!(f, "p{}.{}", tenths / 10, tenths % 10),
            Self::Ms(ms) => write!(f, "{ms}ms"),
        }
    }
}

impl From<HedgeDelay> for String {
    fn from(delay: HedgeDelay) -> Self {
        delay.to_string()
    }
}

impl TryFrom<String> for HedgeDelay {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
