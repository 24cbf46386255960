//! Static libraries.

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, write_archive_to_stream};
use std::io;

/// A static library with one object, whose member is called `name`. Equal objects give equal libraries.
///
/// # Errors
/// The object cannot be read back.
pub fn archive(name: &str, object: &[u8]) -> io::Result<Vec<u8>> {
    let member = NewArchiveMember::new(object, &DEFAULT_OBJECT_READER, name.to_owned());
    let mut bytes = io::Cursor::new(Vec::new());
    write_archive_to_stream(&mut bytes, &[member], ArchiveKind::Gnu, false, None)?;
    Ok(bytes.into_inner())
}
