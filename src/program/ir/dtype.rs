//! Element types.

use super::float8::Float8;
use super::narrow::Narrow;
use super::scalar::round::{to_bf16, to_f16};
use std::fmt;
use std::str::FromStr;

/// The type of a scalar, or of each lane of a vector ([`Ty`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the type it names")]
pub enum DType {
    Float16,
    BFloat16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Bool,
    /// A float of 8 bits.
    Float8(Float8),
    /// A type of less than 8 bits.
    Narrow(Narrow),
    /// An untyped address: the type of a function parameter whose shape `T.match_buffer` states.
    Handle,
    /// Text, as in the arguments of some intrinsics.
    Str,
}

impl DType {
    /// The element types of kernels, in the order of declaration. Kernels treat 8-bit floats as bytes.
    pub const ELEMENTS: [DType; 13] = [
        DType::Float16,
        DType::BFloat16,
        DType::Float32,
        DType::Float64,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::UInt8,
        DType::UInt16,
        DType::UInt32,
        DType::UInt64,
        DType::Bool,
    ];

    /// The name as TVMScript writes it.
    pub fn name(self) -> &'static str {
        match self {
            DType::Float16 => "float16",
            DType::BFloat16 => "bfloat16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
            DType::Int8 => "int8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::UInt8 => "uint8",
            DType::UInt16 => "uint16",
            DType::UInt32 => "uint32",
            DType::UInt64 => "uint64",
            DType::Bool => "bool",
            DType::Float8(t) => t.name(),
            DType::Narrow(t) => t.name(),
            DType::Handle => "handle",
            DType::Str => "str",
        }
    }

    /// Width in bits; 8 for `bool`, which occupies a byte in memory.
    pub fn bits(self) -> u32 {
        match self {
            DType::Narrow(t) => t.bits(),
            _ => self.bytes() as u32 * 8,
        }
    }

    /// Size of an element in memory, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            DType::Int8 | DType::UInt8 | DType::Bool | DType::Float8(_) | DType::Narrow(_) => 1,
            DType::Float16 | DType::BFloat16 | DType::Int16 | DType::UInt16 => 2,
            DType::Float32 | DType::Int32 | DType::UInt32 => 4,
            DType::Float64 | DType::Int64 | DType::UInt64 | DType::Handle | DType::Str => 8,
        }
    }

    /// Is this a floating-point type?
    pub fn is_float(self) -> bool {
        match self {
            DType::Narrow(t) => t.is_float(),
            _ => matches!(self, DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 | DType::Float8(_)),
        }
    }

    /// Is this a float of 16 bits?
    pub fn is_half(self) -> bool {
        matches!(self, DType::Float16 | DType::BFloat16)
    }

    /// Is this `float32` or `float64`?
    pub fn is_single_or_double(self) -> bool {
        matches!(self, DType::Float32 | DType::Float64)
    }

    /// Number of significand bits of a floating-point type, including the leading one; `None` for other types.
    pub fn significant_bits(self) -> Option<u32> {
        match self {
            DType::Float64 => Some(53),
            DType::Float32 => Some(24),
            DType::Float16 => Some(11),
            DType::BFloat16 => Some(8),
            DType::Float8(t) => Some(t.mantissa_bits() + 1),
            DType::Narrow(t) => t.significant_bits(),
            DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::UInt8
            | DType::UInt16
            | DType::UInt32
            | DType::UInt64
            | DType::Bool
            | DType::Handle
            | DType::Str => None,
        }
    }

    /// Half the distance from 1 to the next number of a floating-point type: the maximum error of rounding a number
    /// near 1. 0 for other types.
    pub fn half_ulp(self) -> f64 {
        self.significant_bits().map_or(0.0, |bits| 2f64.powi(-(bits as i32)))
    }

    /// Is this a signed integer type?
    pub fn is_int(self) -> bool {
        match self {
            DType::Narrow(t) => t.is_int(),
            _ => matches!(self, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64),
        }
    }

    /// Is this an unsigned integer type? `bool` is not one.
    pub fn is_uint(self) -> bool {
        match self {
            DType::Narrow(t) => t.is_uint(),
            _ => matches!(self, DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64),
        }
    }

    /// Is this a signed or unsigned integer type? `bool` is not one.
    pub fn is_integer(self) -> bool {
        self.is_int() || self.is_uint()
    }

    /// May loop variables, extents and indices have this type (TVM's `IsIndexType`)?
    pub fn is_index(self) -> bool {
        matches!(self, DType::Int32 | DType::Int64)
    }

    /// `value` reduced to the width of this integer type: two's complement wrap-around. `uint64` values are carried
    /// as the `i64` of equal bits.
    pub fn wrap(self, value: i64) -> i64 {
        match self {
            DType::Int8 => value as i8 as i64,
            DType::Int16 => value as i16 as i64,
            DType::Int32 => value as i32 as i64,
            DType::UInt8 => value as u8 as i64,
            DType::UInt16 => value as u16 as i64,
            DType::UInt32 => value as u32 as i64,
            DType::Bool => (value != 0) as i64,
            DType::Narrow(t) => t.wrap(value),
            DType::Int64 | DType::UInt64 | DType::Handle | DType::Str => value,
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 | DType::Float8(_) => value,
        }
    }

    /// `value` rounded to the nearest number of this floating-point type (ties to even); unchanged for others.
    pub fn round(self, value: f64) -> f64 {
        match self {
            DType::Float16 => to_f16(value).to_f64(),
            DType::BFloat16 => to_bf16(value).to_f64(),
            DType::Float32 => value as f32 as f64,
            DType::Float8(t) => t.decode(t.encode(value)),
            _ => value,
        }
    }

    /// The type to which TVM converts the operands of an arithmetic operator (`BinaryOpMatchTypes`).
    pub fn common(self, other: DType) -> DType {
        let (a, b) = (self, other);
        // There, `bfloat16` is a kind of its own: weaker than the other floats.
        let is_float = |t: DType| t.is_float() && !matches!(t, DType::BFloat16 | DType::Float8(_));
        let wider = if a.bits() < b.bits() { b } else { a };
        match (a, b) {
            _ if a == b => a,
            _ if is_float(a) && is_float(b) => wider,
            _ if is_float(b) => b,
            _ if is_float(a) => a,
            (DType::BFloat16, _) | (_, DType::BFloat16) => DType::BFloat16,
            (DType::Float8(_), _) => a,
            (_, DType::Float8(_)) => b,
            (DType::Bool, other) | (other, DType::Bool) => other,
            // If the widths are equal, the unsigned type.
            _ if a.bits() == b.bits() && a.is_uint() => a,
            _ if a.bits() == b.bits() => b,
            _ => wider,
        }
    }

    /// The smallest finite value, as `T.min_value` gives it: an integer's as `Ok`, a float's as `Err`.
    pub fn min_value(self) -> Result<i64, f64> {
        match self {
            DType::Float16 => Err(-65504.0),
            DType::BFloat16 => Err(half::bf16::MIN.to_f64()),
            DType::Float32 => Err(f32::MIN as f64),
            DType::Float8(Float8::E8M0FNU) => Err(Float8::E8M0FNU.decode(0)),
            DType::Float8(t) => Err(-t.decode(t.largest())),
            DType::Narrow(t) if t.is_float() => t.largest().map_err(|v| -v),
            DType::Narrow(t) if t.is_int() => t.largest().map(|v| -v - 1),
            DType::Float64 => Err(f64::MIN),
            DType::Int8 => Ok(i8::MIN as i64),
            DType::Int16 => Ok(i16::MIN as i64),
            DType::Int32 => Ok(i32::MIN as i64),
            DType::Int64 => Ok(i64::MIN),
            _ => Ok(0),
        }
    }

    /// The largest finite value, as `T.max_value` gives it: an integer's as `Ok` (`uint64`'s by its bits), a
    /// float's as `Err`.
    pub fn max_value(self) -> Result<i64, f64> {
        match self {
            DType::Float16 => Err(65504.0),
            DType::BFloat16 => Err(half::bf16::MAX.to_f64()),
            DType::Float32 => Err(f32::MAX as f64),
            DType::Float8(t) => Err(t.decode(t.largest())),
            DType::Narrow(t) => t.largest(),
            DType::Float64 => Err(f64::MAX),
            DType::Int8 => Ok(i8::MAX as i64),
            DType::Int16 => Ok(i16::MAX as i64),
            DType::Int32 => Ok(i32::MAX as i64),
            DType::Int64 => Ok(i64::MAX),
            DType::UInt8 => Ok(u8::MAX as i64),
            DType::UInt16 => Ok(u16::MAX as i64),
            DType::UInt32 => Ok(u32::MAX as i64),
            DType::UInt64 => Ok(u64::MAX as i64),
            DType::Bool | DType::Handle | DType::Str => Ok(1),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of an expression: a number of lanes of a scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ty {
    /// The type of each lane.
    pub dtype: DType,
    /// Number of lanes: 1 for scalars, more for vectors, 0 for [`Ty::VOID`].
    pub lanes: u16,
}

impl Ty {
    /// The type of a call without a result. As in TVM, it is an address without lanes.
    pub const VOID: Ty = Ty { dtype: DType::Handle, lanes: 0 };
    /// The type of the loop IR's indices and loop variables.
    pub const INDEX: Ty = Ty::scalar(DType::Int64);
    /// The type of scalar conditions.
    pub const BOOL: Ty = Ty::scalar(DType::Bool);

    /// One value of a scalar type.
    pub const fn scalar(dtype: DType) -> Ty {
        Ty { dtype, lanes: 1 }
    }

    /// `lanes` values of a scalar type.
    pub const fn vector(dtype: DType, lanes: u16) -> Ty {
        Ty { dtype, lanes }
    }

    /// The type with the same number of lanes and another scalar type.
    pub fn with_dtype(self, dtype: DType) -> Ty {
        Ty { dtype, ..self }
    }

    /// The type with another number of lanes.
    pub fn with_lanes(self, lanes: u16) -> Ty {
        Ty { lanes, ..self }
    }

    /// Is it a vector of more than one lane?
    pub fn is_vector(self) -> bool {
        self.lanes > 1
    }

    /// Size in memory, in bytes.
    pub fn bytes(self) -> usize {
        self.dtype.bytes() * self.lanes as usize
    }
}

impl From<DType> for Ty {
    fn from(dtype: DType) -> Ty {
        Ty::scalar(dtype)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lanes {
            0 => f.write_str("void"),
            1 => write!(f, "{}", self.dtype),
            n => write!(f, "{}x{n}", self.dtype),
        }
    }
}

impl FromStr for Ty {
    type Err = UnknownDType;

    /// A scalar type, followed by `x` and a number of lanes if it is a vector.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(dtype) = text.parse() {
            return Ok(Ty::scalar(dtype));
        }
        if text == "void" {
            return Ok(Ty::VOID);
        }
        let unknown = || UnknownDType(text.into());
        let (scalar, lanes) = text.rsplit_once('x').ok_or_else(unknown)?;
        let digits = !lanes.starts_with('0') && lanes.bytes().all(|b| b.is_ascii_digit());
        match (scalar.parse::<DType>(), lanes.parse::<u16>()) {
            (Ok(dtype), Ok(lanes)) if digits && lanes > 0 && dtype != DType::Handle => Ok(Ty::vector(dtype, lanes)),
            _ => Err(unknown()),
        }
    }
}

/// The text names no data type of this IR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown data type `{0}`")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DType::ELEMENTS
            .into_iter()
            .chain([DType::Handle])
            .chain(Float8::ALL.map(DType::Float8))
            .chain(Narrow::ALL.map(DType::Narrow))
            .find(|t| t.name() == text)
            .ok_or_else(|| UnknownDType(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for t in DType::ELEMENTS.into_iter().chain(Narrow::ALL.map(DType::Narrow)) {
            assert_eq!(t.name().parse(), Ok(t));
        }
        for (text, ty) in [
            ("float32x4", Ty::vector(DType::Float32, 4)),
            ("bfloat16x8", Ty::vector(DType::BFloat16, 8)),
            ("int8", DType::Int8.into()),
            ("void", Ty::VOID),
            ("float8_e4m3fnx4", Ty::vector(DType::Float8(Float8::E4M3FN), 4)),
        ] {
            assert_eq!(text.parse::<Ty>(), Ok(ty));
            assert_eq!(ty.to_string(), text);
        }
        for text in ["float32x0", "float32x", "float32x04", "handlex2", "int32xvscalex4"] {
            assert_eq!(text.parse::<Ty>(), Err(UnknownDType(text.into())));
        }
        assert_eq!("float31".parse::<DType>(), Err(UnknownDType("float31".into())));
    }

    #[test]
    fn wrap_is_twos_complement() {
        assert_eq!(DType::Int8.wrap(200), -56);
        assert_eq!(DType::UInt8.wrap(-1), 255);
        assert_eq!(DType::Int32.wrap(1 << 31), i32::MIN as i64);
        assert_eq!(DType::UInt64.wrap(-1), -1);
        assert_eq!(DType::Narrow(Narrow::Int4).wrap(9), -7);
        assert_eq!(DType::Narrow(Narrow::UInt4).wrap(-1), 15);
    }

    #[test]
    fn rounding_is_off_by_half_an_ulp_at_most() {
        let floats = [DType::Float64, DType::Float32, DType::Float16, DType::BFloat16];
        for t in floats.into_iter().chain(Float8::ALL.map(DType::Float8)) {
            let next = 1.0 + 2.0 * t.half_ulp();
            assert_eq!(t.round(next), next, "{t}");
            let between = 1.0 + t.half_ulp();
            assert!(t == DType::Float64 || t.round(between) != between, "{t}");
        }
        assert_eq!((DType::Int8.half_ulp(), DType::Bool.significant_bits()), (0.0, None));
    }

    #[test]
    fn common_types_are_those_of_tvm() {
        use DType::*;
        for (a, b, expected) in [
            (Float16, Float32, Float32),
            (BFloat16, Float16, Float16),
            (Int32, BFloat16, BFloat16),
            (Int32, Int64, Int64),
            (UInt8, Int8, UInt8),
            (UInt8, Int32, Int32),
            (UInt32, Int8, UInt32),
            (Bool, Int32, Int32),
            (Int64, Float16, Float16),
        ] {
            assert_eq!(a.common(b), expected, "{a} {b}");
            assert_eq!(b.common(a), expected, "{b} {a}");
        }
    }
}
