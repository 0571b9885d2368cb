//! The only place where protobuf meets the model, both ways; pure: no sockets, no files, no clock.
#![forbid(unsafe_code)]
