//! Functions as the texts for callers describe them: the parameters of all versions together.

use super::ExportError;
use super::interface::{Function, Library, Param};
use crate::codegen::object::accessed_params;
use crate::lower::lower;

/// A function with its parameters.
pub(super) struct FunctionLayout<'a> {
    /// The function.
    pub function: &'a Function,
    /// The parameters of the first version.
    pub params: Vec<Param>,
    /// The shapes of all versions.
    shapes: Vec<Vec<Vec<i64>>>,
    /// For each parameter, whether `_run` and `_prepare` take it.
    pub passed: Vec<(bool, bool)>,
    has_preparation: bool,
}

/// The functions of a library with their parameters.
pub(super) fn layouts(library: &Library) -> Result<Vec<FunctionLayout<'_>>, ExportError> {
    library.check_names()?;
    library.functions.iter().map(FunctionLayout::new).collect()
}

impl<'a> FunctionLayout<'a> {
    fn new(function: &'a Function) -> Result<FunctionLayout<'a>, ExportError> {
        let params = function.params()?;
        for version in &function.versions {
            if let Some(p) =
                params.iter().zip(version.params()?).find(|(p, q)| p.shape.len() != q.shape.len()).map(|(p, _)| p)
            {
                return Err(ExportError::Param {
                    func: function.name.clone(),
                    param: p.name.clone(),
                    why: "its number of dimensions depends on a size; bind that to one value".to_owned(),
                });
            }
            if let Some(p) = params.iter().zip(version.params()?).find(|(p, q)| p.strides != q.strides).map(|(p, _)| p)
            {
                return Err(ExportError::Param {
                    func: function.name.clone(),
                    param: p.name.clone(),
                    why: "its strides depend on a size, which callers cannot be told; bind that to one value"
                        .to_owned(),
                });
            }
        }
        let mut shapes = Vec::new();
        let mut passed = vec![(false, false); params.len()];
        let mut has_preparation = false;
        for version in &function.versions {
            shapes.push(version.params()?.into_iter().map(|p| p.shape).collect());
            let (by_call, by_preparation) = uses(function, version)?;
            has_preparation |= version.body.separate().is_some();
            for ((run, prepare), (c, p)) in passed.iter_mut().zip(by_call.into_iter().zip(by_preparation)) {
                // The call no longer needs parameters that only the preparation reads.
                *run |= c || !p;
                *prepare |= p;
            }
        }
        Ok(FunctionLayout { function, params, shapes, passed, has_preparation })
    }

    /// A function of these parameters, whose kernels are known otherwise.
    #[cfg(test)]
    pub(super) fn of_params(function: &'a Function, params: Vec<Param>) -> FunctionLayout<'a> {
        let passed = vec![(true, false); params.len()];
        FunctionLayout { function, params, shapes: Vec::new(), passed, has_preparation: false }
    }

    /// Whether constant parameters can be prepared.
    pub(super) fn has_preparation(&self) -> bool {
        self.has_preparation
    }

    /// Whether a parameter is read by the preparation.
    pub(super) fn is_constant(&self, param: usize) -> bool {
        self.passed[param].1
    }

    /// Whether an extent is the same in all versions.
    pub(super) fn is_fixed(&self, param: usize, axis: usize) -> bool {
        !self.is_batch(axis) && self.shapes.iter().all(|s| s[param][axis] == self.params[param].shape[axis])
    }

    /// Whether an extent is the number of samples in a batch.
    fn is_batch(&self, axis: usize) -> bool {
        self.function.batch.is_some() && axis == 0
    }

    /// Whether an extent is equal to a size in all versions.
    pub(super) fn is_size(&self, param: usize, axis: usize, size: usize) -> bool {
        if self.is_batch(axis) || self.function.batch == Some(size) {
            return self.is_batch(axis) && self.function.batch == Some(size);
        }
        let versions = &self.function.versions;
        versions.iter().zip(&self.shapes).all(|(v, s)| v.sizes[size] == s[param][axis])
    }

    /// The size that an extent is equal to in all versions, by its number.
    pub(super) fn size_of(&self, param: usize, axis: usize) -> Option<usize> {
        (0..self.function.size_names.len()).find(|&size| self.is_size(param, axis, size))
    }

    /// The shapes of a parameter in all versions.
    pub(super) fn shapes(&self, param: usize) -> impl Iterator<Item = &[i64]> {
        self.shapes.iter().map(move |s| s[param].as_slice())
    }

    /// The extents of a parameter as text: numbers, names of sizes, or a question mark.
    pub(super) fn shape_text(&self, param: usize) -> String {
        let names = self.function.c_size_names();
        let extent = |(axis, n): (usize, &i64)| match (self.is_fixed(param, axis), self.size_of(param, axis)) {
            (true, _) => n.to_string(),
            (false, Some(k)) => names[k].clone(),
            (false, None) => "?".to_owned(),
        };
        let all: Vec<String> = self.params[param].shape.iter().enumerate().map(extent).collect();
        all.join(", ")
    }
}

/// For each parameter, whether the call and the preparation access it.
fn uses(function: &Function, version: &super::Version) -> Result<(Vec<bool>, Vec<bool>), ExportError> {
    let failed = |error| ExportError::Lower { func: function.name.clone(), error };
    let Some(parts) = version.body.separate() else {
        let n = version.params()?.len();
        return Ok((vec![true; n], vec![false; n]));
    };
    let call = accessed_params(&lower(&parts.call).map_err(failed)?);
    let preparation = accessed_params(&lower(&parts.preparation).map_err(failed)?);
    Ok((call, preparation))
}
