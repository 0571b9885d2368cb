//! Routes, as people use them: `curl` and `grpcurl` call a Service, and somebody else may answer.

mod grpc;
mod http1;
mod load;
