//! Comma-separated lists in field values (RFC 9110 section 5.6.1).

/// Returns the members of a list that are not empty.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Whether a list has this member. Ignores case.
pub(crate) fn contains(value: &[u8], member: &[u8]) -> bool {
    members(value).any(|candidate| candidate.eq_ignore_ascii_case(member))
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
