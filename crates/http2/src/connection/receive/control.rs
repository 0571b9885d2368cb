//! RST_STREAM, SETTINGS, PING, GOAWAY and WINDOW_UPDATE (RFC 9113 sections 6.4 to 6.9).

use std::time::Instant;

use super::Received;
use crate::connection::{Connection, Event, Role, SHUTDOWN_PING};
use crate::error::{ConnectionError, ErrorCode, Flood};
use crate::frame::{self, FrameHeader, MAX_31_BITS, flag, kind};
use crate::limits::RAPID_RESET_AGE;
use crate::settings::{DEFAULT_WINDOW_BYTES, PeerSettings};
use crate::stream::Half;

impl Connection {
    pub(super) fn on_rst_stream(&mut self, now: Instant, header: FrameHeader, payload: &[u8]) -> Received {
        let code = exactly_u32(payload, "RST_STREAM is not four bytes")?;
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("RST_STREAM on an idle stream"));
        }
        let Some(key) = self.streams.find(header.stream) else {
            return self.floods.count_late_reset(&self.limits).map(|()| None);
        };
        let now_ms = self.age_ms(now);
        let Some(stream) = self.forget_stream(key) else { return Ok(None) };
        let age_ms = u128::from(now_ms.saturating_sub(stream.opened_ms));
        if stream.by_peer && stream.send == Half::Headers && age_ms < RAPID_RESET_AGE.as_millis() {
            self.count_after_event(Flood::RapidReset);
        }
        Ok(Some(Event::Reset { stream: key, token: stream.token, code: ErrorCode(code), by_peer: true }))
    }

    pub(super) fn on_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            if payload.is_empty() {
                return self.on_acknowledgement().map(|()| None);
            }
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "a SETTINGS acknowledgement is not empty"));
        }
        self.floods.count(Flood::Settings, &self.limits)?;
        let before = self.peer;
        self.peer.apply(payload, self.role == Role::Client)?;
        self.settings_received = true;
        self.settings_changed(before)?;
        frame::write(&mut self.out.bytes, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(Some(Event::Settings))
    }

    /// Applies those of our settings that are smaller than their initial values, once the peer has acknowledged our
    /// settings. Until then, the peer may use the initial values (sections 6.5.3 and 6.9.2). We send SETTINGS once, so
    /// further acknowledgements count as a flood.
    fn on_acknowledgement(&mut self) -> Result<(), ConnectionError> {
        if std::mem::replace(&mut self.settings_acknowledged, true) {
            return self.floods.count(Flood::Settings, &self.limits);
        }
        self.decoder.set_max_table_size(self.limits.header_table_bytes as usize);
        let excess = DEFAULT_WINDOW_BYTES.saturating_sub(self.limits.initial_window_bytes);
        let mut open = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.receive_window -= i64::from(excess);
            stream.receive_target = stream.receive_target.saturating_sub(excess);
            open.push(key);
        }
        // We return credit once it reaches half of the window. The windows have just shrunk, so this may be so now.
        for key in open {
            self.announce_credit(key);
        }
        Ok(())
    }

    /// Applies changed settings. A new initial window adjusts every stream's window, possibly below zero (section
    /// 6.9.2).
    fn settings_changed(&mut self, before: PeerSettings) -> Result<(), ConnectionError> {
        if self.peer.header_table_bytes != before.header_table_bytes {
            self.encoder.set_max_table_size(self.peer.header_table_bytes as usize);
        }
        let change = i64::from(self.peer.initial_window_bytes) - i64::from(before.initial_window_bytes);
        if change == 0 {
            return Ok(());
        }
        let mut woken = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > i64::from(MAX_31_BITS) {
                return Err(ConnectionError::coded(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "SETTINGS makes a window larger than 2^31-1",
                ));
            }
            woken.push(key);
        }
        for key in woken {
            self.wake(key);
        }
        Ok(())
    }

    pub(super) fn on_ping(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if payload.len() != 8 {
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "PING is not eight bytes"));
        }
        if header.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        if !header.has(flag::ACK) {
            self.floods.count(Flood::Ping, &self.limits)?;
            frame::write(&mut self.out.bytes, kind::PING, flag::ACK, 0, payload);
            return Ok(None);
        }
        self.floods.count_ping_answer(&self.limits)?;
        if payload == SHUTDOWN_PING && self.shutting_down {
            self.go_away(ErrorCode::NO_ERROR, "");
        }
        Ok(None)
    }

    pub(super) fn on_goaway(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        let (Some(last), Some(code)) = (frame::read_u32(payload), payload.get(4..).and_then(frame::read_u32)) else {
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "GOAWAY is too short"));
        };
        self.floods.count(Flood::GoAway, &self.limits)?;
        let last_stream = (last & MAX_31_BITS).min(self.goaway_received().unwrap_or(MAX_31_BITS));
        let code = ErrorCode(code);
        // The caller looks at all open streams for each event. So a GOAWAY causes no event if it excludes no further
        // stream and has the same error code.
        if self.goaway_received.replace((last_stream, code)) == Some((last_stream, code)) {
            return Ok(None);
        }
        Ok(Some(Event::GoAway { last_stream, code }))
    }

    pub(super) fn on_window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        let increment = exactly_u32(payload, "WINDOW_UPDATE is not four bytes")? & MAX_31_BITS;
        self.floods.count(Flood::WindowUpdate, &self.limits)?;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE of 0"));
            }
            self.send_window += i64::from(increment);
            if self.send_window > i64::from(MAX_31_BITS) {
                return Err(ConnectionError::coded(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "the connection's window exceeds 2^31-1",
                ));
            }
            self.end_holding_back();
            return Ok(None);
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("WINDOW_UPDATE on an idle stream"));
        }
        let Some(key) = self.streams.find(header.stream) else { return Ok(None) };
        if increment == 0 {
            return self.stream_error(key, ErrorCode::PROTOCOL_ERROR);
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.send_window += i64::from(increment);
        if stream.send_window > i64::from(MAX_31_BITS) {
            return self.stream_error(key, ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.wake(key);
        Ok(None)
    }
}

fn exactly_u32(payload: &[u8], why: &'static str) -> Result<u32, ConnectionError> {
    match payload {
        [a, b, c, d] => Ok(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, why)),
    }
}
