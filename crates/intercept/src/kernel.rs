//! Sends rules to the kernel over a netlink socket.

use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};

use crate::Redirection;
use crate::rules::{question, removing_transaction, transaction};

/// Time limit for one answer of the kernel, which may have to load modules and rules first.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Size of the buffer for the kernel's answers.
const ANSWERS_BYTES: usize = 64 * 1024;
const HEADER_BYTES: usize = 16;
/// The type of a message that acknowledges another message or reports that message's error.
const ERROR: u16 = 2;
/// The minimum of the field for the error in an answer: the kernel sends error numbers negated.
const LAST_ERROR: i32 = -4095;

/// The reason why the kernel did not accept the rules or the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The caller lacks the capability.
    #[error("redirecting connections needs the capability NET_ADMIN; add it to the container's securityContext")]
    NotPermitted,
    /// The kernel lacks a module.
    #[error("the kernel has no nf_tables that can redirect ({0}); it needs Linux 5.2 with nft_redir and nft_fib_inet")]
    NotSupported(Errno),
    #[error("netfilter: {0}")]
    Failed(Errno),
    /// The answer is malformed.
    #[error("netfilter's answer is truncated")]
    BadAnswer,
}

impl From<Errno> for LoadError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted,
            Errno::OPNOTSUPP | Errno::NOENT | Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => Self::NotSupported(errno),
            other => Self::Failed(other),
        }
    }
}

/// Replaces the redirection in the network namespace of the calling thread.
///
/// # Errors
/// If the caller lacks the capability, or the kernel lacks a module. The redirection is unchanged then.
pub fn load(redirection: &Redirection) -> Result<(), LoadError> {
    ask(&transaction(redirection))
}

/// Removes the redirection from the network namespace of the calling thread, if there is one.
///
/// # Errors
/// If the caller lacks the capability, or the kernel lacks a module. The redirection is unchanged then.
pub fn unload() -> Result<(), LoadError> {
    ask(&removing_transaction())
}

/// Returns whether [`load`] has redirected the connections of the calling thread's network namespace.
///
/// # Errors
/// If the caller lacks the capability, or the kernel's answer is malformed.
pub fn is_loaded() -> Result<bool, LoadError> {
    Ok(look()? == Some(true))
}

/// Returns whether the kernel has nf_tables.
///
/// # Errors
/// If the caller lacks the capability, or the kernel's answer is malformed.
pub fn has_nf_tables() -> Result<bool, LoadError> {
    Ok(look()?.is_some())
}

/// Returns whether the kernel has our table; `None` if the kernel has no nf_tables.
fn look() -> Result<Option<bool>, LoadError> {
    match ask(&question()) {
        Ok(()) => Ok(Some(true)),
        // The kernel answers this error if it has nf_tables, but not our table.
        Err(LoadError::NotSupported(Errno::NOENT)) => Ok(Some(false)),
        Err(LoadError::NotSupported(_) | LoadError::Failed(Errno::INVAL)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends messages to which the kernel sends one answer, and reads that answer.
fn ask(messages: &[u8]) -> Result<(), LoadError> {
    let address = SocketAddrNetlink::new(0, 0);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_MAX))?;
    bind(&socket, &address)?;
    sendto(&socket, messages, SendFlags::empty(), &address)?;
    let mut buffer = vec![0; ANSWERS_BYTES];
    let (_, length) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
    read_answers(buffer.get(..length).ok_or(LoadError::BadAnswer)?)
}

/// Reads answers of the kernel.
///
/// # Errors
/// The first error that the kernel reports.
fn read_answers(mut answers: &[u8]) -> Result<(), LoadError> {
    if answers.is_empty() {
        return Err(LoadError::BadAnswer);
    }
    while !answers.is_empty() {
        let length = u32::from_ne_bytes(field(answers, 0)?);
        let length = usize::try_from(length).ok().filter(|length| *length >= HEADER_BYTES);
        let length = length.ok_or(LoadError::BadAnswer)?;
        if u16::from_ne_bytes(field(answers, 4)?) == ERROR {
            match i32::from_ne_bytes(field(answers, HEADER_BYTES)?) {
                0 => {}
                code @ LAST_ERROR..0 => return Err(Errno::from_raw_os_error(-code).into()),
                _ => return Err(LoadError::BadAnswer),
            }
        }
        answers = answers.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], LoadError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(LoadError::BadAnswer)
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
