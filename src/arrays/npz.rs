//! The npz format: a zip archive with an npy file for each array, stored or deflated.

use super::array::Array;
use super::bytes::Bytes;
use super::error::ArrayErrorKind;
use super::header::NpyHeader;
use super::npy;
use crate::ir::DType;
use rawzip::{
    CompressionMethod, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive, ZipArchiveEntryWayfinder,
    ZipArchiveWriter, ZipLocator,
};
use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Write};

/// The most bytes that deflate makes of one compressed byte.
const MAX_INFLATION: u64 = 1032;
/// The extension of an entry's name, which is no part of the array's.
const EXTENSION: &str = ".npy";

/// An open npz file.
#[derive(Debug)]
pub(super) struct Npz {
    archive: ZipArchive<Bytes>,
    entries: Vec<Entry>,
}

/// An array in an archive.
#[derive(Debug)]
struct Entry {
    name: String,
    method: CompressionMethod,
    is_encrypted: bool,
    place: ZipArchiveEntryWayfinder,
}

/// An error, with the array that it is about.
type Failed = (Option<String>, ArrayErrorKind);

impl Npz {
    /// Reads the directory of an archive. Entries that are no npy files are left out.
    pub(super) fn open(bytes: Bytes) -> Result<Npz, Failed> {
        let len = bytes.len();
        let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
        let archive = ZipLocator::new().locate_in_reader(bytes, &mut buffer, len);
        let archive = archive.map_err(|(_, e)| (None, of_zip(e)))?;
        let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
        let mut seen = 0u64;
        let mut all = archive.entries(&mut buffer);
        while let Some(entry) = all.next_entry().map_err(|e| (None, of_zip(e)))? {
            seen += 1;
            if entry.is_dir() {
                continue;
            }
            let path = entry.file_path();
            let Ok(path) = str::from_utf8(path.as_bytes()) else {
                return Err((None, damaged("the name of an entry is not UTF-8")));
            };
            let Some(name) = path.strip_suffix(EXTENSION) else { continue };
            check_name(name).map_err(|e| (Some(name.to_owned()), e))?;
            if !names.insert(name.to_owned()) {
                return Err((Some(name.to_owned()), ArrayErrorKind::Duplicate));
            }
            entries.push(Entry {
                name: name.to_owned(),
                method: entry.compression_method(),
                is_encrypted: entry.flags().is_encrypted(),
                place: entry.wayfinder(),
            });
        }
        if seen != archive.entries_hint() {
            let (stated, found) = (archive.entries_hint(), seen);
            return Err((None, damaged(&format!("it states {stated} entries, and has {found}"))));
        }
        let npz = Npz { archive, entries };
        npz.check_places()?;
        Ok(npz)
    }

    /// The names of the arrays, in the order of the archive.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }

    /// The header of an array.
    pub(super) fn header(&self, i: usize) -> Result<NpyHeader, ArrayErrorKind> {
        self.opened(&self.entries[i], NpyHeader::read)
    }

    /// Reads an array.
    pub(super) fn read(&self, i: usize, wanted: Option<DType>) -> Result<Array, ArrayErrorKind> {
        let entry = &self.entries[i];
        self.opened(entry, |reader| {
            let header = NpyHeader::read(reader)?;
            let found = entry.place.uncompressed_size_hint().saturating_sub(header.len);
            if found != header.data_len {
                return Err(ArrayErrorKind::Size { stated: header.data_len, found });
            }
            npy::read_elements(reader, &header, wanted)
        })
    }

    /// Reads an entry, inflated. The reader compares size and checksum with the directory once all is read.
    fn opened<T>(
        &self,
        entry: &Entry,
        read: impl FnOnce(&mut dyn Read) -> Result<T, ArrayErrorKind>,
    ) -> Result<T, ArrayErrorKind> {
        if entry.is_encrypted {
            return Err(ArrayErrorKind::Unsupported("it is encrypted".to_owned()));
        }
        let (compressed, size) = (entry.place.compressed_size_hint(), entry.place.uncompressed_size_hint());
        let local = self.archive.get_entry(entry.place).map_err(of_zip)?;
        let raw = BufReader::with_capacity(1 << 16, local.reader());
        match entry.method {
            CompressionMethod::STORE if size != compressed => {
                Err(damaged(&format!("it is stored as {compressed} bytes, and states {size}")))
            }
            CompressionMethod::STORE => read(&mut local.verifying_reader(raw)),
            CompressionMethod::DEFLATE if size > compressed.saturating_mul(MAX_INFLATION) => {
                Err(damaged(&format!("{compressed} bytes cannot inflate to the {size} that it states")))
            }
            CompressionMethod::DEFLATE => read(&mut local.verifying_reader(flate2::bufread::DeflateDecoder::new(raw))),
            other => {
                let name = other.name().map_or_else(|| other.as_u16().to_string(), str::to_owned);
                Err(ArrayErrorKind::Unsupported(format!("it is compressed by method {name}")))
            }
        }
    }

    /// Checks that no two arrays share bytes: a small archive could otherwise hold any amount of data.
    fn check_places(&self) -> Result<(), Failed> {
        let mut places = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let failed = |e| (Some(entry.name.clone()), of_zip(e));
            places.push((self.archive.get_entry(entry.place).map_err(failed)?.compressed_data_range(), entry));
        }
        places.sort_by_key(|(range, _)| *range);
        match places.windows(2).find(|pair| pair[0].0.1 > pair[1].0.0) {
            Some(pair) => Err((Some(pair[1].1.name.clone()), damaged("it shares bytes with another array"))),
            None => Ok(()),
        }
    }
}

/// Refuses names that would leave the directory they were unpacked to. Arrays are not unpacked, but no array is called so.
fn check_name(name: &str) -> Result<(), ArrayErrorKind> {
    let wrong = if name.is_empty() {
        "is empty"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else if name.starts_with('/') || name.contains('\\') || name.split('/').any(|part| part == "..") {
        "is a path out of the archive"
    } else {
        return Ok(());
    };
    Err(ArrayErrorKind::Name(wrong))
}

/// Writes arrays, stored as NumPy's `savez` does.
pub(super) fn write<'a>(writer: &mut dyn Write, arrays: impl Iterator<Item = (&'a str, &'a Array)>) -> io::Result<()> {
    let mut archive = ZipArchiveWriter::new(writer);
    for (name, array) in arrays {
        check_name(name).map_err(|e| io::Error::other(format!("`{name}` {e}")))?;
        let path = format!("{name}{EXTENSION}");
        let (mut entry, config) = archive.new_file(&path).start().map_err(io::Error::other)?;
        let mut content = config.wrap(&mut entry);
        npy::write(&mut content, array)?;
        let (_, descriptor) = content.finish().map_err(io::Error::other)?;
        entry.finish(descriptor).map_err(io::Error::other)?;
    }
    archive.finish().map(|_| ()).map_err(io::Error::other)
}

fn of_zip(e: rawzip::Error) -> ArrayErrorKind {
    match e.into_kind() {
        ErrorKind::IO(e) => e.into(),
        ErrorKind::Eof => damaged("it ends too early"),
        other => ArrayErrorKind::Damaged(format!("the zip archive has an {}", Lower(&other))),
    }
}

/// A message of the zip crate within a sentence.
struct Lower<'a>(&'a ErrorKind);

impl std::fmt::Display for Lower<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_string().to_lowercase())
    }
}

fn damaged(what: &str) -> ArrayErrorKind {
    ArrayErrorKind::Damaged(what.to_owned())
}
