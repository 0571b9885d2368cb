//! Unmodified programs that talk through a mesh of proxies, each in a network namespace of its own.

mod grpc;
