//! Descriptors from a file.

use std::path::Path;

use prost_reflect::DescriptorPool;

use super::one_line;
use crate::error::{Error, Result};

/// Reads a file that `protoc --descriptor_set_out` wrote.
///
/// # Errors
/// One line that names the option, if the file cannot be read, is no descriptor set, or imports a file that it does not
/// contain.
pub(crate) fn read_descriptor_set(path: &Path) -> Result<DescriptorPool> {
    let unusable = |why: String| {
        Error::Usage(format!(
            "--descriptor-set {}: {}; make the file with protoc --descriptor_set_out=FILE --include_imports",
            path.display(),
            one_line(why)
        ))
    };
    let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    DescriptorPool::decode(&bytes[..]).map_err(|error| unusable(error.to_string()))
}
