//! Whole-system tests: real programs on loopback around a real `leno-proxy`.
//!
//! `./test` runs two tests at a time. It runs the tests that measure (`measuring` in the script) one at a time.

mod attacks;
mod balancing;
mod clients;
mod config;
mod crowds;
mod dashboard;
mod deadlines;
mod discovery;
mod drain;
mod errors;
mod faults;
mod fleet;
mod h2spec;
mod intercept;
mod interop;
mod lab;
mod logs;
mod measurers;
mod mesh;
mod monitoring;
mod objectives;
mod pools;
mod redirect;
mod retry;
mod routes;
mod routing;
mod run;
mod sight;
mod soak;
mod streaming;
mod supervise;
mod traces;
mod traffic;
mod xds;
