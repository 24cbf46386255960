//! The parameters of a function that is run on arrays.

use crate::arrays::Array;
use crate::ir::DType;
use crate::loopir::Access;
use std::fmt;

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The name of its buffer.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extent of each dimension.
    pub shape: Vec<i64>,
    /// Whether the function reads it, writes it, or both.
    pub role: Role,
}

/// Whether a function reads a parameter, writes it, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is read.
    Input,
    /// It is written, completely and before it is read.
    Output,
    /// It is written, and what it held before is read or stays in parts.
    InOut,
}

impl Role {
    /// The role of a parameter that a kernel accesses so.
    pub(super) fn of(access: Access) -> Role {
        match access {
            Access::In => Role::Input,
            Access::Out => Role::Output,
            Access::InOut => Role::InOut,
        }
    }

    /// Whether the function reads what the caller passes.
    pub fn is_read(self) -> bool {
        matches!(self, Role::Input | Role::InOut)
    }

    /// Whether the function writes it.
    pub fn is_written(self) -> bool {
        matches!(self, Role::Output | Role::InOut)
    }
}

impl Parameter {
    /// Whether the array has its type and shape.
    pub fn takes(&self, array: &Array) -> bool {
        array.dtype() == self.dtype && array.shape() == self.shape
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({} {:?})", self.name, self.dtype, self.shape)
    }
}
