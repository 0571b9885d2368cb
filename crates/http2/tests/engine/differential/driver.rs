//! Connects an engine with a pipe, as a proxy's loop connects it with a socket.

use std::collections::HashMap;
use std::time::Instant;

use leno_http2::{Connection, Event, FieldSection, Limits, StreamKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

pub(super) trait Owner {
    /// Does everything possible without waiting. Returns `true` if nothing is left to do.
    fn act(&mut self, http2: &mut Connection) -> bool;

    fn on_event(&mut self, http2: &mut Connection, event: Event<'_>, fields: &FieldSection);
}

/// Drives `http2` and `owner` over `io`. Returns when the owner has finished and all output is written, or when the
/// peer closes.
pub(super) async fn drive(io: DuplexStream, http2: &mut Connection, owner: &mut impl Owner) {
    let (mut from, mut to) = tokio::io::split(io);
    let (mut buffer, mut fields) = (vec![0; 20_000], FieldSection::new());
    loop {
        let finished = owner.act(http2);
        let output = http2.output().to_vec();
        if finished && output.is_empty() {
            return;
        }
        tokio::select! {
            written = to.write(&output), if !output.is_empty() => {
                let Ok(n) = written else { return };
                http2.advance_output(n);
            }
            read = from.read(&mut buffer) => {
                let Ok(n @ 1..) = read else { return };
                let mut input = &buffer[..n];
                while let Some(event) = http2.receive(Instant::now(), &mut input, &mut fields).expect("h2 keeps the rules") {
                    owner.on_event(http2, event, &fields);
                }
            }
        }
    }
}

/// Received content that is not released yet. Must stay below the smallest window, or the transfer would stall.
#[derive(Default)]
pub(super) struct Unreleased(HashMap<StreamKey, usize>);

impl Unreleased {
    const MAX_BYTES: usize = 400;

    pub(super) fn receive(&mut self, http2: &mut Connection, rng: &mut fastrand::Rng, stream: StreamKey, bytes: usize) {
        let held = self.0.entry(stream).or_default();
        *held += bytes;
        let released = rng.usize(held.saturating_sub(Self::MAX_BYTES)..=*held);
        *held -= released;
        http2.release(stream, released);
    }
}

pub(super) fn random_limits(rng: &mut fastrand::Rng, limits: &Limits) -> Limits {
    let window = rng.u32(1_000..100_000);
    Limits {
        max_concurrent_streams: limits.max_concurrent_streams.min(rng.u32(2..40)),
        initial_window_bytes: window,
        max_stream_window_bytes: window + rng.u32(0..100_000),
        connection_window_bytes: rng.u32(65_535..300_000),
        max_frame_bytes: rng.u32(16_384..40_000),
        header_table_bytes: rng.u32(0..8_192),
        max_stream_errors: u32::MAX,
        max_window_updates: u32::MAX,
        max_empty_frames: u32::MAX,
        max_dribbled_frames: u32::MAX,
        max_continuation_frames: 16,
        ..limits.clone()
    }
}
