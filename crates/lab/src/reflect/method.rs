//! Finds a method by its name, and encodes its request from JSON.

use std::fmt;
use std::str::FromStr;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::{list, one_line};
use crate::error::{Error, Result};
use crate::load::{CALL_MAX_BYTES, UnaryCall, parse_path};

/// The name of a gRPC method: `package.Service/Method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName {
    pub(super) service: String,
    pub(super) method: String,
}

impl MethodName {
    /// The full name of the method's service.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// Creates an error whose one line names the method.
    pub(super) fn error(&self, why: impl fmt::Display) -> Error {
        Error::Usage(format!("--call {self}: {why}"))
    }
}

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let form = || "write PACKAGE.SERVICE/METHOD, such as helloworld.Greeter/SayHello".to_owned();
        let (service, method) = text.trim_start_matches('/').split_once('/').ok_or_else(form)?;
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
        if service.is_empty() || method.is_empty() || !is_name(service) || !is_name(method) {
            return Err(form());
        }
        Ok(Self { service: service.to_owned(), method: method.to_owned() })
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.method)
    }
}

/// Returns the call of a unary method. `json` is the request message in protobuf's JSON encoding.
///
/// # Errors
/// One line that names the method, if the descriptors have no such unary method, or if `json` is no valid request of
/// the method.
pub(crate) fn call(descriptors: &DescriptorPool, name: &MethodName, json: &str) -> Result<UnaryCall> {
    let method = find(descriptors, name)?;
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(name.error("the method streams messages, and the load makes unary calls; name a unary method"));
    }
    let input = method.input();
    let unfit = |error: serde_json::Error| {
        let error = one_line(error);
        Error::Usage(format!("--data for {name} is no {} in JSON: {error}; see its .proto file", input.full_name()))
    };
    let mut json = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(input.clone(), &mut json).map_err(unfit)?;
    json.end().map_err(unfit)?;
    let message = message.encode_to_vec();
    if message.len() > CALL_MAX_BYTES {
        let bytes = message.len();
        let why = format!("the request has {bytes} bytes, more than {CALL_MAX_BYTES}; send a smaller one with --data");
        return Err(name.error(why));
    }
    let path = format!("/{name}");
    parse_path(&path).map_err(|error| name.error(error))?;
    Ok(UnaryCall { path, message })
}

fn find(descriptors: &DescriptorPool, name: &MethodName) -> Result<MethodDescriptor> {
    let Some(service) = descriptors.get_service_by_name(&name.service) else {
        let services = list(descriptors.services().map(|service| service.full_name().to_owned()));
        return Err(name.error(format!("there is no such service; the services are: {services}")));
    };
    let Some(method) = service.methods().find(|method| method.name() == name.method) else {
        let methods = list(service.methods().map(|method| method.name().to_owned()));
        return Err(name.error(format!("there is no such method; the service's methods are: {methods}")));
    };
    Ok(method)
}

#[cfg(test)]
#[path = "method_tests.rs"]
mod tests;
