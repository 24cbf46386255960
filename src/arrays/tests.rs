//! Files that are right, files that are wrong, and files that were changed at random.

use super::*;
use crate::ir::{DType, Float8};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rawzip::{CompressionMethod, ZipArchiveWriter};
use std::io::Write;
use std::path::Path;

/// An array whose elements are 0, 1, 0, 1 … in any type.
fn bits(dtype: DType, shape: &[i64]) -> Array {
    let n: i64 = shape.iter().product();
    let mut data = vec![0; n as usize * dtype.bytes()];
    data.chunks_exact_mut(dtype.bytes()).skip(1).step_by(2).for_each(|e| e[0] = 1);
    Array::new(dtype, shape, data).expect("an array")
}

/// The file that `write` makes of these arrays.
fn written(extension: &str, arrays: &[(&str, &Array)]) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(format!("a.{extension}"));
    write(&path, arrays).unwrap_or_else(|e| panic!("{e}"));
    std::fs::read(&path).expect("the file")
}

fn opened(bytes: &[u8]) -> Result<ArrayFile, ArrayError> {
    ArrayFile::from_bytes(Path::new("a"), bytes.to_vec())
}

/// Reads all arrays, of types that the file states.
fn read_bytes(bytes: &[u8]) -> Result<Vec<Array>, ArrayError> {
    let file = opened(bytes)?;
    (0..file.names().len()).map(|i| file.read(i, None)).collect()
}

/// An npy file with this dictionary, and `n` zeros as elements.
fn npy(dictionary: &str, n: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dictionary.len() as u16).to_le_bytes());
    bytes.extend(dictionary.as_bytes());
    bytes.resize(bytes.len() + n, 0);
    bytes
}

fn of_shape(descr: &str, shape: &str, n: usize) -> Vec<u8> {
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"), n)
}

/// A safetensors file with this header, and `n` zeros as elements.
fn safetensors(header: &str, n: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + n, 0);
    bytes
}

/// A zip archive with these entries, deflated.
fn zip(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    for (name, content) in entries {
        let file = archive.new_file(rawzip::path::EntryPath::verbatim(*name));
        let (mut entry, config) = file.compression_method(CompressionMethod::DEFLATE).start().expect("an entry");
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
        writer.write_all(content).expect("memory");
        let (encoder, descriptor) = writer.finish().expect("memory");
        encoder.finish().expect("memory");
        entry.finish(descriptor).expect("memory");
    }
    archive.finish().expect("memory")
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = read_bytes(bytes).expect_err(expected).to_string();
    assert!(error.contains(expected), "expected `{expected}` in: {error}");
}

#[test]
fn every_type_reads_back_from_every_format() {
    let floats = Float8::ALL.map(DType::Float8);
    let mut seen = 0;
    for (extension, format) in [("npy", Format::Npy), ("npz", Format::Npz), ("safetensors", Format::Safetensors)] {
        for dtype in DType::ELEMENTS.into_iter().chain(floats).filter(|&d| format.holds(d)) {
            for shape in [&[2, 3][..], &[], &[0, 4], &[7]] {
                let array = bits(dtype, shape);
                let file = opened(&written(extension, &[("a/b.c", &array)])).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(file.names(), [if extension == "npy" { "" } else { "a/b.c" }]);
                let header = file.header(0).unwrap_or_else(|e| panic!("{dtype} {e}"));
                assert!(header.stored.may_be(dtype) && header.shape == shape, "{dtype} {header:?}");
                assert_eq!(file.read(0, Some(dtype)).unwrap_or_else(|e| panic!("{dtype} {e}")), array);
                let other = if dtype == DType::Int32 { DType::Float32 } else { DType::Int32 };
                let error = file.read(0, Some(other)).expect_err("another type").to_string();
                assert!(error.contains(&format!("not {other}")), "{error}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 4 * (3 * 13 + 8 + 8 + 5));
}

#[test]
fn several_arrays_keep_their_order_and_names() {
    let (a, b) = (bits(DType::Float32, &[2, 2]), bits(DType::Float32, &[3]));
    for extension in ["npz", "safetensors"] {
        let file = opened(&written(extension, &[("a", &a), ("b", &b)])).expect("a file");
        assert_eq!(file.names(), ["a", "b"]);
        assert_eq!(file.read(1, None).expect("an array"), b);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let fails = |name: &str, arrays: &[(&str, &Array)], expected: &str| {
        let error = write(&dir.path().join(name), arrays).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    fails("a.npy", &[("a", &a), ("b", &b)], "cannot hold 2 arrays");
    fails("a.npz", &[("a", &a), ("a", &b)], "`a` in");
    fails("a.txt", &[("a", &a)], "no extension");
    let narrow = Array::new(DType::Float8(Float8::E3M4), &[1], vec![0]).expect("an array");
    fails("a.safetensors", &[("a", &narrow)], "cannot hold elements of type float8_e3m4");
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 0, "nothing is left");
}

#[test]
fn a_failed_write_leaves_what_was_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (bits(DType::Int8, &[1]), bits(DType::Int8, &[2]));
    let path = dir.path().join("a.npy");
    write(&path, &[("", &old)]).expect("it can be written");
    let outputs = [
        Output { path: path.clone(), arrays: vec![("", &new)] },
        Output { path: dir.path().join("none").join("b.npy"), arrays: vec![("", &new)] },
    ];
    let error = write_all(&outputs).expect_err("there is no such directory");
    assert!(matches!(error.kind, ArrayErrorKind::Write(_)), "{error}");
    assert_eq!(read(&path).expect("the old file")[0].1, old);
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 1, "no temporary file is left");
}

#[test]
fn files_of_numpy_are_read() {
    // Column-major: [[1, 2], [3, 4], [5, 6]].
    let mut file = npy("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 2), }", 0);
    [1i16, 3, 5, 2, 4, 6].iter().for_each(|v| file.extend(v.to_le_bytes()));
    let rows = |values: &[i16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(read_bytes(&file).expect("an array")[0].data(), rows(&[1, 2, 3, 4, 5, 6]));
    // Big-endian.
    let mut file = of_shape(">i2", "(2,)", 0);
    [258i16, -2].iter().for_each(|v| file.extend(v.to_be_bytes()));
    assert_eq!(read_bytes(&file).expect("an array")[0].data(), rows(&[258, -2]));
    // Versions 2 and 3 have longer lengths.
    for version in [2, 3] {
        let one = of_shape("|u1", "()", 1);
        let mut file = one[..6].to_vec();
        file.extend([version, 0]);
        file.extend((one.len() as u32 - 11).to_le_bytes());
        file.extend(&one[10..]);
        assert!(read_bytes(&file).expect("an array")[0].shape().is_empty());
    }
    // Without a type: `bfloat16` of `ml_dtypes`.
    let file = of_shape("<V2", "(2,)", 4);
    refused(&file, "without a type (`V2`)");
    let file = opened(&file).expect("a file");
    assert!(file.read(0, Some(DType::BFloat16)).is_ok());
    for other in [DType::Float16, DType::Int16, DType::Float8(Float8::E5M2)] {
        let error = file.read(0, Some(other)).expect_err("not that");
        assert!(error.to_string().contains(&format!("has elements of type V2, not {other}")), "{error}");
    }
    // An array that is not read does not spoil the others.
    let mixed =
        zip(&[(b"o.npy", &of_shape("|O", "(1,)", 8)), (b"note.txt", b"x"), (b"x.npy", &of_shape("<f4", "(1,)", 4))]);
    let file = opened(&mixed).expect("a file");
    assert_eq!(file.names(), ["o", "x"]);
    assert!(file.read(1, None).is_ok() && file.header(0).is_err());
}

#[test]
fn damaged_npy_files_are_refused() {
    let good = of_shape("<f4", "(2, 3)", 24);
    assert!(read_bytes(&good).is_ok());
    for end in 8..good.len() {
        assert!(read_bytes(&good[..end]).is_err(), "cut after {end} bytes");
    }
    refused(b"", "neither npy, npz nor safetensors");
    refused(&good[..5], "neither npy, npz nor safetensors");
    refused(&good[..9], "it ends within its header");
    refused(&good[..good.len() - 1], "states 24 bytes of elements, and has 23");
    refused(&[&good[..], b"x"].concat(), "states 24 bytes of elements, and has 25");
    let shape = |shape: &str| of_shape("<f4", shape, 24);
    refused(&shape("(-2, -3)"), "an extent is negative");
    refused(&shape("(9223372036854775808,)"), "an extent is too large");
    refused(&shape("(99999999999999999999999999,)"), "an extent is too large");
    refused(&shape("(4611686018427387904, 4611686018427387904)"), "more than 2^64 bytes");
    refused(&shape("(1000000000000,)"), "states 4000000000000 bytes of elements, and has 24");
    refused(&shape("(6)"), "`shape` is no tuple");
    refused(&shape("(2.0, 3)"), "an extent is no number");
    refused(&shape(&format!("({})", "1, ".repeat(65))), "65 dimensions");
    refused(&shape(&format!("{}{}", "(".repeat(3000), ")".repeat(3000))), "not a Python dictionary");
    let descr = |descr: &str| of_shape(descr, "(3,)", 24);
    refused(&descr("|O"), "Python objects, which are pickled");
    refused(&descr("<U2"), "(text)");
    refused(&descr("<c8"), "complex");
    refused(&descr("<f16"), "`<f16`, which is not supported");
    refused(&descr("<M8[ns]"), "`<M8[ns]`");
    refused(&descr("f4"), "`f4`");
    refused(&descr("é"), "`é`");
    refused(&descr(""), "``");
    let header = |dictionary: &str| npy(dictionary, 8);
    refused(&header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "structured array");
    refused(&header("{'descr': '<f4', 'fortran_order': False}"), "no `shape`");
    refused(&header("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}"), "neither True nor False");
    refused(&header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "occurs twice");
    refused(&header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"), "unknown key `more`");
    refused(&header("['descr']"), "not a Python dictionary");
    refused(&header("{**{}}"), "is no text");
    refused(&header(&"-".repeat(9000)), "not a Python dictionary");
    refused(&npy(&" ".repeat(20_000), 0), "20000 bytes, more than 10000");
    let mut other = good.clone();
    other[6] = 9;
    refused(&other, "version 9.0");
    let mut latin = good.clone();
    latin[12] = 0xe9;
    refused(&latin, "its header is not UTF-8");
    let mut boolean = of_shape("|b1", "(2,)", 2);
    *boolean.last_mut().expect("an element") = 7;
    refused(&boolean, "neither 0 nor 1, but 7");
}

#[test]
fn damaged_npz_files_are_refused() {
    let one = of_shape("<f4", "(3,)", 12);
    let good = zip(&[(b"a.npy", &one), (b"b.npy", &one)]);
    assert_eq!(read_bytes(&good).expect("a file").len(), 2);
    for end in 4..good.len() {
        assert!(read_bytes(&good[..end]).is_err(), "cut after {end} bytes");
    }
    refused(&zip(&[(b"a.npy", &one), (b"a.npy", &one)]), "`a` in `a` occurs more than once");
    refused(&zip(&[(b"\xff.npy", &one)]), "not UTF-8");
    for name in ["../a.npy", "/a.npy", "a/../../b.npy", "a\\b.npy"] {
        refused(&zip(&[(name.as_bytes(), &one)]), "is a path out of the archive");
    }
    refused(&zip(&[(b"a\0.npy", &one)]), "has control characters");
    refused(&zip(&[(b".npy", &one)]), "its name is empty");
    // A header that promises more than the entry has.
    refused(&zip(&[(b"a.npy", &of_shape("<f4", "(1000000000000,)", 12))]), "states 4000000000000 bytes");
    refused(&zip(&[(b"a.npy", b"no npy")]), "ends within its header");

    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what).expect("it is there");
    // Sizes in the directory: the compressed one 20 bytes behind the signature, then the other.
    let directory = find(&good, b"PK\x01\x02");
    let mut bomb = good.clone();
    bomb[directory + 24..directory + 28].copy_from_slice(&0xf000_0000u32.to_le_bytes());
    refused(&bomb, "cannot inflate to the 4026531840");
    let mut long = good.clone();
    long[directory + 20..directory + 24].copy_from_slice(&0x00ff_ffffu32.to_le_bytes());
    refused(&long, "");
    let mut method = good.clone();
    method[directory + 10] = 12;
    refused(&method, "compressed by method BZIP2");
    let mut encrypted = good.clone();
    encrypted[directory + 8] |= 1;
    refused(&encrypted, "it is encrypted");
    let mut checksum = good.clone();
    checksum[directory + 16] ^= 1;
    refused(&checksum, "checksum");
    // Both entries at the place of the first.
    let second = directory + 1 + find(&good[directory + 1..], b"PK\x01\x02");
    let mut shared = good.clone();
    shared[second + 42..second + 46].copy_from_slice(&0u32.to_le_bytes());
    refused(&shared, "`b` in `a` is damaged: it shares bytes with another array");
    let end = find(&good, b"PK\x05\x06");
    let mut count = good.clone();
    count[end + 8] = 3;
    count[end + 10] = 3;
    refused(&count, "it states 3 entries, and has 2");
    // An entry that inflates to more than it states is not read to its end.
    let zeros = of_shape("|u1", "(1000000,)", 1_000_000);
    let mut more = zip(&[(b"a.npy", &zeros)]);
    assert!(read_bytes(&more).is_ok() && more.len() < 3000);
    let directory = find(&more, b"PK\x01\x02");
    more[directory + 24..directory + 28].copy_from_slice(&1000u32.to_le_bytes());
    refused(&more, "");
}

#[test]
fn damaged_safetensors_files_are_refused() {
    let entry = |name: &str, dtype: &str, shape: &str, from: usize, to: usize| {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    };
    let file = |entries: &[String], n: usize| safetensors(&format!("{{{}}}", entries.join(",")), n);
    let good = file(&[entry("a", "F32", "[3]", 0, 12), entry("b", "U8", "[]", 12, 13)], 13);
    assert_eq!(read_bytes(&good).expect("a file").len(), 2);
    for end in 0..good.len() {
        assert!(read_bytes(&good[..end]).is_err(), "cut after {end} bytes");
    }
    let with_metadata = file(&["\"__metadata__\":{\"by\":\"x\"}".to_owned(), entry("a", "F32", "[1]", 0, 4)], 4);
    assert_eq!(opened(&with_metadata).expect("a file").names(), ["a"]);
    refused(&[&good[..], b"x"].concat(), "states 13 bytes of elements, and has 14");
    refused(&file(&[entry("a", "F32", "[3]", 0, 8)], 8), "its header is invalid");
    refused(&file(&[entry("a", "F32", "[3]", 4, 16)], 16), "its header is invalid");
    refused(&file(&[entry("a", "F32", "[9223372036854775807,9]", 0, 12)], 12), "its header is invalid");
    refused(&file(&[entry("a", "F32", "[-3]", 0, 12)], 12), "its header is invalid");
    refused(&file(&[entry("a", "Q7", "[3]", 0, 12)], 12), "its header is invalid");
    refused(&file(&[entry("a", "C64", "[1]", 0, 8)], 8), "type `C64`, which is not supported");
    refused(&file(&[entry("a", "F4", "[2]", 0, 1)], 1), "type `F4`, which is not supported");
    refused(&file(&[entry("a", "BOOL", "[1]", 0, 1), entry("a", "BOOL", "[1]", 0, 1)], 1), "names an array twice");
    refused(&safetensors(&format!("{}{}", "{\"a\":".repeat(5000), "}".repeat(5000)), 0), "its header is invalid");
    refused(&safetensors("{\"a\": \"\u{e9}\"}", 0), "its header is invalid");
    let mut not_utf8 = good.clone();
    not_utf8[10] = 0xff;
    refused(&not_utf8, "its header is invalid");
    let mut huge = good.clone();
    huge[..8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    refused(&huge, "neither npy, npz nor safetensors");
    let mut boolean = file(&[entry("a", "BOOL", "[1]", 0, 1)], 1);
    *boolean.last_mut().expect("an element") = 2;
    refused(&boolean, "neither 0 nor 1");
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = ArrayFile::open(dir.path()).expect_err("a directory");
    assert!(matches!(error.kind, ArrayErrorKind::NotAFile), "{error}");
    let error = ArrayFile::open(&dir.path().join("none")).expect_err("nothing");
    assert!(matches!(&error.kind, ArrayErrorKind::Read(e) if e.kind() == std::io::ErrorKind::NotFound), "{error}");
}

/// Changed files are refused or read, without a panic; those that were changed at random are mostly refused.
#[test]
fn changed_files_never_panic() {
    let one = of_shape("<f4", "(2, 3)", 24);
    let columns = npy("{'descr': '>i8', 'fortran_order': True, 'shape': (3, 2), }", 48);
    let (a, b) = (bits(DType::Float64, &[3, 2]), bits(DType::Bool, &[5]));
    let files = [
        one.clone(),
        columns.clone(),
        zip(&[(b"a.npy", &one), (b"b.npy", &columns)]),
        written("npz", &[("a", &a), ("b", &b)]),
        written("safetensors", &[("a", &a), ("b", &b)]),
    ];
    let (mut read, mut refused) = (0, 0);
    for (number, file) in files.iter().enumerate() {
        assert!(read_bytes(file).is_ok(), "file {number}");
        let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
        for _ in 0..4000 {
            let mut changed = file.clone();
            for _ in 0..1 + rng.next_u32() % 4 {
                change(&mut changed, &mut rng);
            }
            match read_bytes(&changed) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 100 && refused > 10_000, "{read} read, {refused} refused");
}

/// Changes some bytes of a file.
fn change(file: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    if file.is_empty() {
        return;
    }
    let mut below = |n: usize| rng.next_u32() as usize % n.max(1);
    let at = below(file.len());
    match below(7) {
        0 => file[at] ^= 1 << below(8),
        1 => file[at] = below(256) as u8,
        2 => file.truncate(at),
        3 => file.insert(at, below(256) as u8),
        4 => drop(file.remove(at)),
        // Numbers that lie.
        5 => {
            let n = [1, 2, 4, 8][below(4)].min(file.len() - at);
            file[at..at + n].fill([0, 0x7f, 0xff][below(3)]);
        }
        _ => {
            let n = (1 + below(16)).min(file.len() - at);
            let part = file[at..at + n].to_vec();
            file.splice(at..at, part);
        }
    }
}
