//! The traffic of a load: the messages and sizes of its exchanges, and the times at which its calls are due.

use serde::{Deserialize, Serialize};

/// Default payload of each request and of each answer.
const USUAL_PAYLOAD_BYTES: u32 = 50;

/// The messages of one gRPC exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One request message, one answer message.
    #[default]
    Unary,
    /// One request message, several answer messages.
    ServerStream,
    /// Several request messages. The client sends each further message after the answer to the previous message.
    BidiStream,
}

/// When the calls of an open loop arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly spaced.
    #[default]
    Constant,
    /// Random gaps between calls, exponentially distributed, with the same mean as the gaps of `Constant`.
    Poisson,
}

/// The rate of an open loop during the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum WarmUpRate {
    /// The rate of the measured time.
    #[default]
    Full,
    /// Half of that rate.
    Half,
    /// From 0 to that rate, linearly.
    Ramp,
}

/// The exchanges of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// The messages of a gRPC exchange.
    pub shape: Shape,
    /// Messages of each stream, 1 to 1,000,000; ignored for [`Shape::Unary`]. The end of the load may cut a
    /// bidirectional stream short.
    pub messages: u32,
    /// Payload of each request message, in bytes, at most 16 MiB.
    pub request_bytes: u32,
    /// Payload of each answer message, in bytes, at most 16 MiB; 0 only if `request_bytes` is 0 too.
    pub response_bytes: u32,
    /// Delay in ms that each gRPC request demands before each answer message, in addition to the server's own delay; at
    /// most 60,000. Requests of other protocols demand no delay.
    #[serde(default)]
    pub delay_ms: u32,
    /// The spacing of the calls of an open loop.
    pub arrivals: Arrivals,
    /// The rate of an open loop during the warm-up.
    pub warm_up_rate: WarmUpRate,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            shape: Shape::Unary,
            messages: 1,
            request_bytes: USUAL_PAYLOAD_BYTES,
            response_bytes: USUAL_PAYLOAD_BYTES,
            delay_ms: 0,
            arrivals: Arrivals::Constant,
            warm_up_rate: WarmUpRate::Full,
        }
    }
}
