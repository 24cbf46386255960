//! The bytes of a file, on disk or in memory.

use rawzip::{FileReader, RangeReader, ReaderAt};
use std::fs::File;
use std::io;

/// The bytes of a file, which can be read at any place.
#[derive(Debug)]
pub(super) enum Bytes {
    /// On disk, with the length when it was opened.
    Disk(FileReader, u64),
    /// In memory.
    Memory(Vec<u8>),
}

impl Bytes {
    /// The bytes of an open file.
    pub(super) fn of(file: File) -> io::Result<Bytes> {
        let len = file.metadata()?.len();
        Ok(Bytes::Disk(FileReader::from(file), len))
    }

    /// The number of bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Bytes::Disk(_, len) => *len,
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads a range of them.
    pub(super) fn range(&self, range: std::ops::Range<u64>) -> RangeReader<&Bytes> {
        RangeReader::new(self, range)
    }
}

impl ReaderAt for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Bytes::Disk(file, _) => file.read_at(buf, offset),
            Bytes::Memory(bytes) => bytes.read_at(buf, offset),
        }
    }
}
