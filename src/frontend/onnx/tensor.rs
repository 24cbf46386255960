//! Tensors with known elements: those of the file, and those of other files beside it.

use super::proto::TensorProto;
use super::types;
use crate::graph::Constant;
use crate::ir::DType;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// The element type and the shape of a tensor.
///
/// # Errors
/// The type is not supported, or an extent is negative.
pub(super) fn header(tensor: &TensorProto) -> Result<(DType, Vec<i64>), String> {
    let dtype = types::dtype(tensor.data_type)?;
    match tensor.dims.iter().find(|&&n| n < 0) {
        Some(n) => Err(format!("has the extent {n}")),
        None => Ok((dtype, tensor.dims.clone())),
    }
}

/// The tensor with its elements. `folder` contains the model.
///
/// # Errors
/// The elements are not of a supported type, not as many as the shape says, or in a file that cannot be read.
pub(super) fn constant(tensor: &TensorProto, folder: &Path) -> Result<Constant, String> {
    let (dtype, shape) = header(tensor)?;
    let n = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(usize::try_from(extent).ok()?));
    let size = n.and_then(|n| n.checked_mul(dtype.bytes())).ok_or("is too large")?;
    let data = if tensor.data_location == 1 {
        external(tensor, folder, size)?
    } else if !tensor.raw_data.is_empty() {
        tensor.raw_data.to_vec()
    } else {
        listed(tensor, dtype)
    };
    let found = data.len();
    if dtype == DType::Bool && data.iter().any(|&b| b > 1) {
        return Err("has a `bool` that is neither 0 nor 1".to_owned());
    }
    Constant::new(dtype, &shape, data)
        .ok_or_else(|| format!("is {dtype} {shape:?}, which takes {size} bytes, and has {found}"))
}

/// The elements in the list of their type.
fn listed(tensor: &TensorProto, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::Float32 => tensor.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Float64 => tensor.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::Int64 => tensor.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::UInt32 => tensor.uint64_data.iter().flat_map(|v| (*v as u32).to_le_bytes()).collect(),
        DType::UInt64 => tensor.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        narrow => {
            let size = narrow.bytes().min(4);
            tensor.int32_data.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect()
        }
    }
}

/// The elements in another file.
fn external(tensor: &TensorProto, folder: &Path, size: usize) -> Result<Vec<u8>, String> {
    let entry = |key: &str| tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let location = entry("location").ok_or("names no file with its elements (`location`)")?;
    let path = inside(folder, location)?;
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text.trim().parse::<u64>().map(Some).map_err(|_| format!("has the {key} `{text}`")),
    };
    let offset = number("offset")?.unwrap_or(0);
    let failed = |e: std::io::Error| format!("has its elements in `{}`, which cannot be read: {e}", path.display());
    let mut file = File::open(&path).map_err(failed)?;
    let rest = file.metadata().map_err(failed)?.len().saturating_sub(offset);
    let length = number("length")?.unwrap_or(rest);
    if length != size as u64 || rest < length {
        let path = path.display();
        return Err(format!("takes {size} bytes, and `{path}` has {} behind byte {offset}", length.min(rest)));
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut data = vec![0; size];
    file.read_exact(&mut data).map_err(failed)?;
    Ok(data)
}

/// The path of a file in the folder. Others are refused: a model from elsewhere must not read what it names.
fn inside(folder: &Path, location: &str) -> Result<PathBuf, String> {
    let refused = || format!("has its elements in `{location}`, which is outside of the model's folder");
    let relative = Path::new(location);
    if !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(refused());
    }
    let failed = |e: std::io::Error| format!("has its elements in `{location}`, which cannot be read: {e}");
    // Links may lead out of the folder.
    let path = folder.join(relative).canonicalize().map_err(failed)?;
    let folder = folder.canonicalize().map_err(failed)?;
    if path.starts_with(folder) { Ok(path) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::super::proto::StringStringEntryProto;
    use super::*;

    fn external(folder: &Path, location: &str, offset: &str) -> Result<Constant, String> {
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let external_data = vec![entry("location", location), entry("offset", offset)];
        let tensor =
            TensorProto { dims: vec![2], data_type: 1, data_location: 1, external_data, ..TensorProto::default() };
        constant(&tensor, folder)
    }

    #[test]
    fn elements_in_other_files_are_read_from_the_models_folder_alone() {
        let folder = std::env::temp_dir().join(format!("tvmr-onnx-external-{}", std::process::id()));
        let inner = folder.join("model");
        std::fs::create_dir_all(&inner).expect("a folder");
        let bytes: Vec<u8> = [1.5_f32, 2.0, -3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        std::fs::write(inner.join("w.bin"), &bytes).expect("a file");
        std::fs::write(folder.join("secret.bin"), &bytes[4..]).expect("a file");
        std::os::unix::fs::symlink(folder.join("secret.bin"), inner.join("link.bin")).expect("a link");
        let read = external(&inner, "w.bin", "4").expect("elements");
        assert_eq!((read.float(0), read.float(1)), (Some(2.0), Some(-3.0)));
        for (location, why) in [
            ("../secret.bin", "outside of the model's folder"),
            ("/etc/hostname", "outside of the model's folder"),
            ("link.bin", "outside of the model's folder"),
            ("none.bin", "cannot be read"),
        ] {
            let message = external(&inner, location, "0").expect_err(location);
            assert!(message.contains(why), "{location}: {message}");
        }
        assert!(external(&inner, "w.bin", "8").expect_err("short").contains("takes 8 bytes"));
        std::fs::remove_dir_all(folder).expect("it can be removed");
    }

    #[test]
    fn elements_are_read_from_the_list_of_their_type() {
        let tensor =
            TensorProto { dims: vec![3], data_type: 3, int32_data: vec![-1, 5, 127], ..TensorProto::default() };
        let read = constant(&tensor, Path::new(".")).expect("elements");
        assert_eq!([0, 1, 2].map(|i| read.int(i)), [Some(-1), Some(5), Some(127)]);
        let short = TensorProto { dims: vec![4], ..tensor };
        assert_eq!(constant(&short, Path::new(".")).expect_err("short"), "is int8 [4], which takes 4 bytes, and has 3");
    }
}
