//! Weights outside of objects: a file that the host maps and passes to the library once.
//!
//! The file holds what the object would hold else: the weights, constants and results of preparations that calls read, each content
//! once. Kernels read them where they were mapped, at offsets that the object knows. They serve all instruction sets of the object:
//! its kernels have the same schedules for all, which lay weights out in the same way.
//!
//! ```text
//! | header: 64 bytes | tensor | zeros to a multiple of 64 | tensor | …
//! ```

use super::abi::{WEIGHTS_MAGIC, WEIGHTS_VERSION, WeightsHeader};
use super::interface::{Body, Function, Versions};
use crate::graph::memory::ALIGNMENT;
use crate::graph::{Constant, DistinctConstants};
use crate::machine::Isa;
use std::io::{self, Write};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};

/// The weights of a library, as a file of their own.
#[derive(Clone)]
pub struct ExternalWeights {
    path: PathBuf,
    contents: DistinctConstants,
    /// Where each content begins.
    offsets: Vec<u64>,
    isa: u32,
    hash: [u8; 16],
    bytes: u64,
}

impl ExternalWeights {
    /// The weights that the graphs among functions read, as the file at `path`; `None` if they read none.
    pub fn of(path: &Path, functions: &[Function]) -> Option<ExternalWeights> {
        let contents = contents(functions);
        if contents.items().is_empty() {
            return None;
        }
        let isa = graphs(functions).next().map_or(0, |(targets, _)| isa_number(targets));
        let mut hasher = blake3::Hasher::new();
        let mut offsets = Vec::new();
        let mut end = size_of::<WeightsHeader>() as u64;
        for (item, digest) in contents.items().iter().zip(contents.digests()) {
            let bytes = item.data().len() as u64;
            offsets.push(end);
            end += bytes.next_multiple_of(ALIGNMENT as u64);
            hasher.update(&bytes.to_le_bytes()).update(digest);
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Some(ExternalWeights { path: path.to_owned(), contents, offsets, isa, hash, bytes: end })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the file, by which wrappers look for it beside themselves.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The hash in the file's header, in hexadecimal digits.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The header of the file, little-endian, as [`WeightsHeader`] lays it out.
    pub(super) fn header(&self) -> [u8; size_of::<WeightsHeader>()] {
        let mut bytes = [0; size_of::<WeightsHeader>()];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(offset_of!(WeightsHeader, magic), &WEIGHTS_MAGIC);
        put(offset_of!(WeightsHeader, version), &WEIGHTS_VERSION.to_le_bytes());
        put(offset_of!(WeightsHeader, isa), &self.isa.to_le_bytes());
        put(offset_of!(WeightsHeader, hash), &self.hash);
        put(offset_of!(WeightsHeader, bytes), &self.bytes.to_le_bytes());
        bytes
    }

    /// Where the elements of a tensor begin in the file.
    pub(super) fn offset(&self, constant: &Constant) -> Option<u64> {
        Some(self.offsets[self.contents.position(constant)?])
    }

    /// Writes the file, tensor by tensor.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.header())?;
        for item in self.contents.items() {
            let data = item.data();
            out.write_all(data)?;
            out.write_all(&[0; ALIGNMENT][..data.len().next_multiple_of(ALIGNMENT) - data.len()])?;
        }
        Ok(())
    }
}

/// The tensors with known elements that graphs read, each content once.
pub fn contents(functions: &[Function]) -> DistinctConstants {
    let mut all = DistinctConstants::default();
    for (_, graph) in graphs(functions) {
        for (_, constant) in &graph.known {
            all.insert(constant);
        }
    }
    all
}

/// The bytes of the same tensors, where equal ones count each time.
pub fn known_bytes(functions: &[Function]) -> usize {
    graphs(functions).flat_map(|(_, graph)| &graph.known).map(|(_, constant)| constant.data().len()).sum()
}

fn graphs(functions: &[Function]) -> impl Iterator<Item = (&Versions, &super::Graph)> {
    functions.iter().flat_map(|f| &f.versions).filter_map(|version| match &version.body {
        Body::Graph(graph) => Some((&version.targets, &**graph)),
        Body::Func(_) => None,
    })
}

/// The number of the instruction set that a library is built for: its code computed what was prepared. The numbers are fixed for good.
fn isa_number(targets: &Versions) -> u32 {
    let architecture = if cfg!(target_arch = "aarch64") { 0x100 } else { 0 };
    let best = targets.0.first().filter(|options| !options.any_cpu).map_or(Isa::Portable, |options| options.isa);
    architecture
        + match best {
            Isa::Portable => 0,
            Isa::Avx2 => 1,
            Isa::Avx512Ymm => 2,
            Isa::Avx512 => 3,
        }
}
