//! DATA (RFC 9113 section 6.1): content, padding, the windows, content-length.

use super::{Absent, Received};
use crate::connection::{Connection, DataFrame, Event, Input};
use crate::error::{ConnectionError, ErrorCode, Flood};
use crate::frame::{FrameHeader, flag};
use crate::limits::DRIBBLE_BYTES;
use crate::stream::{Half, StreamKey};

impl Connection {
    pub(super) fn begin_data(&mut self, header: FrameHeader) -> Received {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("DATA on stream 0"));
        }
        let end_stream = header.has(flag::END_STREAM);
        if !end_stream && header.length == 0 {
            self.floods.count(Flood::EmptyFrames, &self.limits)?;
        } else if !end_stream && (header.length as usize) < DRIBBLE_BYTES && !self.is_tunnel(header.stream) {
            self.floods.count(Flood::DataDribble, &self.limits)?;
        }
        self.receive_window -= i64::from(header.length);
        if self.receive_window < 0 {
            return Err(ConnectionError::coded(ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the connection's window"));
        }
        self.credit_connection(header.length);
        let stream = match self.streams.find(header.stream) {
            Some(key) => Some(key),
            None => {
                // Do not close the connection if DATA arrives for a stream that the peer has reset: grpc-java sends
                // such DATA if a call is cancelled immediately. Count the frame as an empty frame instead. Each stream
                // that is opened raises the limit on empty frames by one, so one such frame for each stream is allowed.
                if let Absent::Ended = self.absent_stream(header.stream)? {
                    self.floods.count(Flood::EmptyFrames, &self.limits)?;
                    self.reset_absent(header.stream, ErrorCode::STREAM_CLOSED);
                }
                None
            }
        };
        self.input = Input::Data(DataFrame {
            stream,
            awaits_pad_length: header.has(flag::PADDED),
            data_left: header.length,
            pad_left: 0,
            end_stream,
        });
        if header.has(flag::PADDED) && header.length == 0 {
            return Err(ConnectionError::protocol("a padded frame has no pad length"));
        }
        let Some(key) = stream else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.receive_window -= i64::from(header.length);
        let error = match stream.receive {
            Half::Closed => Some(ErrorCode::STREAM_CLOSED),
            Half::Headers => Some(ErrorCode::PROTOCOL_ERROR),
            // An empty frame is allowed even if the window is negative (section 6.9.1).
            Half::Body if stream.receive_window < 0 && header.length > 0 => Some(ErrorCode::FLOW_CONTROL_ERROR),
            Half::Body => None,
        };
        if let Some(code) = error {
            return self.data_error(key, code);
        }
        if header.has(flag::PADDED) { Ok(None) } else { self.check_content(key, header.length, end_stream) }
    }

    /// Returns whether a stream is a tunnel for an application's connection (RFC 9113 section 8.5). Applications may
    /// send small pieces, and one peer may carry the connections of many applications, so small DATA frames are no
    /// attack.
    fn is_tunnel(&self, stream: u32) -> bool {
        let stream = self.streams.find(stream).and_then(|key| self.streams.get(key));
        stream.is_some_and(|stream| stream.connect)
    }

    /// Handles a stream error within a DATA frame: resets the stream and drops the rest of the frame.
    fn data_error(&mut self, key: StreamKey, code: ErrorCode) -> Received {
        if let Input::Data(data) = &mut self.input {
            data.stream = None;
        }
        self.stream_error(key, code)
    }

    /// Checks the content against content-length (section 8.1.1).
    fn check_content(&mut self, key: StreamKey, length: u32, end_stream: bool) -> Received {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let Some(left) = stream.content_left else { return Ok(None) };
        match left.checked_sub(u64::from(length)) {
            Some(left) if !end_stream || left == 0 => {
                stream.content_left = Some(left);
                Ok(None)
            }
            _ => self.data_error(key, ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// Returns the received part of a DATA frame. The flag is true if the frame is complete.
    pub(super) fn read_data<'a>(
        &mut self,
        mut data: DataFrame,
        input: &mut &'a [u8],
    ) -> Result<(Option<Event<'a>>, bool), ConnectionError> {
        if data.awaits_pad_length {
            let Some((&pad, rest)) = input.split_first() else { return Ok((None, false)) };
            *input = rest;
            data.awaits_pad_length = false;
            data.pad_left = u32::from(pad);
            let Some(left) = data.data_left.checked_sub(1 + u32::from(pad)) else {
                return Err(ConnectionError::protocol("padding is longer than its frame"));
            };
            data.data_left = left;
            self.input = Input::Data(data);
            if let Some(key) = data.stream {
                self.release_padding(key, 1 + u32::from(pad));
                if let Some(event) = self.check_content(key, left, data.end_stream)? {
                    return Ok((Some(event), true));
                }
            }
        }
        let n = (data.data_left as usize).min(input.len());
        let (bytes, rest) = input.split_at(n);
        *input = rest;
        data.data_left -= n as u32;
        let skipped = if data.data_left == 0 { (data.pad_left as usize).min(input.len()) } else { 0 };
        *input = input.get(skipped..).unwrap_or_default();
        data.pad_left -= skipped as u32;

        let complete = data.data_left == 0 && data.pad_left == 0;
        self.input = if complete { Input::Header } else { Input::Data(data) };
        let end_stream = complete && data.end_stream;
        let event = match data.stream {
            Some(key) if n > 0 || end_stream => self.data_event(key, bytes, end_stream),
            _ => None,
        };
        Ok((event, complete))
    }

    fn data_event<'a>(&mut self, key: StreamKey, bytes: &'a [u8], end_stream: bool) -> Option<Event<'a>> {
        let token = self.streams.count_received(key, bytes.len() as u32)?;
        if end_stream {
            self.end_receiving(key);
        }
        Some(Event::Data { stream: key, token, bytes, end_stream })
    }
}
