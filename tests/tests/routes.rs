//! Routes in use: `curl` and `grpcurl` call a Service, and another Service may answer.

mod grpc;
mod http1;
mod load;
