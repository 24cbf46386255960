//! Types of less than 8 bits. Programs with them are read, checked, scheduled and printed, but cannot run: no kernel
//! packs several elements into a byte.

/// A type of less than 8 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Narrow {
    Float4E2M1FN,
    Float6E2M3FN,
    Float6E3M2FN,
    Int1,
    Int2,
    Int4,
    UInt1,
    UInt2,
    UInt4,
}

impl Narrow {
    /// All types.
    pub const ALL: [Narrow; 9] = [
        Narrow::Float4E2M1FN,
        Narrow::Float6E2M3FN,
        Narrow::Float6E3M2FN,
        Narrow::Int1,
        Narrow::Int2,
        Narrow::Int4,
        Narrow::UInt1,
        Narrow::UInt2,
        Narrow::UInt4,
    ];

    /// The name as TVMScript writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Narrow::Float4E2M1FN => "float4_e2m1fn",
            Narrow::Float6E2M3FN => "float6_e2m3fn",
            Narrow::Float6E3M2FN => "float6_e3m2fn",
            Narrow::Int1 => "int1",
            Narrow::Int2 => "int2",
            Narrow::Int4 => "int4",
            Narrow::UInt1 => "uint1",
            Narrow::UInt2 => "uint2",
            Narrow::UInt4 => "uint4",
        }
    }

    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Narrow::Int1 | Narrow::UInt1 => 1,
            Narrow::Int2 | Narrow::UInt2 => 2,
            Narrow::Float4E2M1FN | Narrow::Int4 | Narrow::UInt4 => 4,
            Narrow::Float6E2M3FN | Narrow::Float6E3M2FN => 6,
        }
    }

    /// Is this a floating-point type?
    pub const fn is_float(self) -> bool {
        matches!(self, Narrow::Float4E2M1FN | Narrow::Float6E2M3FN | Narrow::Float6E3M2FN)
    }

    /// Number of significand bits of a floating-point type, including the leading one; `None` for other types.
    pub const fn significant_bits(self) -> Option<u32> {
        match self {
            Narrow::Float4E2M1FN => Some(2),
            Narrow::Float6E2M3FN => Some(4),
            Narrow::Float6E3M2FN => Some(3),
            Narrow::Int1 | Narrow::Int2 | Narrow::Int4 | Narrow::UInt1 | Narrow::UInt2 | Narrow::UInt4 => None,
        }
    }

    /// Is this a signed integer type?
    pub const fn is_int(self) -> bool {
        matches!(self, Narrow::Int1 | Narrow::Int2 | Narrow::Int4)
    }

    /// Is this an unsigned integer type?
    pub const fn is_uint(self) -> bool {
        matches!(self, Narrow::UInt1 | Narrow::UInt2 | Narrow::UInt4)
    }

    /// Wraps an integer to the width of an integer type; the identity for floating-point types.
    pub const fn wrap(self, value: i64) -> i64 {
        let unused = 64 - self.bits();
        if self.is_int() {
            value << unused >> unused
        } else if self.is_uint() {
            ((value as u64) << unused >> unused) as i64
        } else {
            value
        }
    }

    /// The largest number: an integer's as `Ok`, a float's as `Err`.
    pub const fn largest(self) -> Result<i64, f64> {
        match self {
            Narrow::Float4E2M1FN => Err(6.0),
            Narrow::Float6E2M3FN => Err(7.5),
            Narrow::Float6E3M2FN => Err(28.0),
            Narrow::Int1 | Narrow::Int2 | Narrow::Int4 => Ok((1 << (self.bits() - 1)) - 1),
            Narrow::UInt1 | Narrow::UInt2 | Narrow::UInt4 => Ok((1 << self.bits()) - 1),
        }
    }
}
