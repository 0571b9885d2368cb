//! Routes: `curl` and `grpcurl` call a Service, and the route may send the call to another Service.

mod grpc;
mod http1;
mod load;
