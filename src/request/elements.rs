//! Elements of inputs of ONNX models that must be known before the model is translated: numbers, or arrays of files.

use super::Error;
use super::program::Content;
use crate::arrays::{Array, ArrayFile};
use crate::diagnostic::nearest;
use crate::graph::{Constant, Function, ValueId};
use crate::ir::DType;
use std::collections::BTreeMap;
use std::path::Path;

/// The input of a name.
pub fn find(signature: &Function, name: &str) -> Option<ValueId> {
    signature.params.iter().copied().find(|&p| signature.value(p).name == name)
}

fn unknown(signature: &Function, name: &str) -> Error {
    let names: Vec<&str> = signature.params.iter().map(|&p| signature.value(p).name.as_str()).collect();
    let help = match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is `{near}`"),
        None => format!("there are `{}`", names.join("`, `")),
    };
    Error::Usage(format!("the model has no input `{name}`"), help)
}

/// The type and the extents of an input; `None` for an extent that is a symbol.
fn declared(signature: &Function, param: ValueId) -> Result<(DType, Vec<Option<i64>>), Error> {
    let tensor = signature.ty(param).as_tensor();
    let found = tensor.and_then(|t| {
        let shape = t.shape.as_ref()?.iter().map(|&e| signature.arena.as_int(e)).collect();
        Some((t.dtype?, shape))
    });
    found.ok_or_else(|| {
        Error::Usage(format!("the type of `{}` is not known", signature.value(param).name), String::new())
    })
}

/// Refuses elements for the inputs of what is no ONNX model.
///
/// # Errors
/// There are some, and the content is a text.
pub fn check(name: &str, content: &Content, values: &[(String, String)]) -> Result<(), Error> {
    match (content, values) {
        (Content::Text(_), [_, ..]) => {
            let help = "in the text of a graph, `R.const` is a constant".to_owned();
            Err(Error::Usage(format!("`--const` is for inputs of ONNX models, and `{name}` is a text"), help))
        }
        _ => Ok(()),
    }
}

/// The elements of inputs by their names; values are as for [`of`].
///
/// # Errors
/// There is no such input, it has two values, or it cannot have these elements.
pub fn constants(signature: &Function, values: &[(String, String)]) -> Result<BTreeMap<String, Constant>, Error> {
    let mut all = BTreeMap::new();
    for (name, value) in values {
        let Some(param) = find(signature, name) else { return Err(unknown(signature, name)) };
        if all.insert(name.clone(), of(signature, param, value)?).is_some() {
            return Err(Error::Usage(format!("`--const` gives `{name}` twice"), String::new()));
        }
    }
    Ok(all)
}

/// The elements of an input: numbers that commas separate, or those of a file.
///
/// # Errors
/// They are of another type or shape, or the file cannot be read.
pub fn of(signature: &Function, param: ValueId, value: &str) -> Result<Constant, Error> {
    let (dtype, shape) = declared(signature, param)?;
    let name = signature.value(param).name;
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    if let Some(numbers) = words.iter().map(|word| Array::number(dtype, word)).collect::<Option<Vec<Array>>>() {
        let data = numbers.iter().flat_map(|n| n.data().to_vec()).collect();
        let shape = if shape.is_empty() { Vec::new() } else { vec![numbers.len() as i64] };
        let array =
            Array::new(dtype, &shape, data).map_err(|_| misfit(signature, param, dtype, &[words.len() as i64]))?;
        return checked(signature, param, array);
    }
    let file = ArrayFile::open(Path::new(value)).map_err(Error::of_array)?;
    let i = match (file.position_for(name.as_str()), file.names().len()) {
        (Some(i), _) => i,
        (None, 1) => 0,
        (None, n) => {
            let message = format!("`{value}` has {n} arrays, and none is called `{name}`");
            return Err(Error::Usage(message, String::new()));
        }
    };
    let header = file.header(i).map_err(Error::of_array)?;
    if !header.stored.may_be(dtype) {
        let message = format!("`{name}` is {dtype}, and `{value}` has {}", header.stored);
        return Err(Error::Usage(message, String::new()));
    }
    in_file(signature, param, &file, i)
}

/// The elements of an input in array `i` of a file.
///
/// # Errors
/// The array cannot be read, or is of another type or shape.
pub fn in_file(signature: &Function, param: ValueId, file: &ArrayFile, i: usize) -> Result<Constant, Error> {
    let (dtype, _) = declared(signature, param)?;
    checked(signature, param, file.read(i, Some(dtype)).map_err(Error::of_array)?)
}

/// The array as the elements of an input of the same type and shape.
fn checked(signature: &Function, param: ValueId, array: Array) -> Result<Constant, Error> {
    let (dtype, declared) = declared(signature, param)?;
    let (found, shape) = (array.dtype(), array.shape().to_vec());
    let fits = declared.len() == shape.len() && declared.iter().zip(&shape).all(|(d, n)| d.is_none_or(|d| d == *n));
    match Constant::new(dtype, &shape, array.into_data()) {
        Some(constant) if fits && dtype == found => Ok(constant),
        _ => Err(misfit(signature, param, found, &shape)),
    }
}

fn misfit(signature: &Function, param: ValueId, dtype: DType, shape: &[i64]) -> Error {
    let (name, ty) = (signature.value(param).name, signature.ty(param).describe(&signature.arena));
    Error::Usage(format!("`{name}` is {ty}, and its elements are {dtype} {shape:?}"), String::new())
}
