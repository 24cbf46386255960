//! Operators and intrinsic functions of expressions, each set in one table.

use super::dtype::DType;
use super::expr::{Arena, Expr, ExprList};
use super::symbol::Symbol;
use std::fmt;

/// A binary operator whose result has the type of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinOp {
    /// Wrapping for integers.
    Add,
    /// Wrapping for integers.
    Sub,
    /// Wrapping for integers.
    Mul,
    /// Division: exact for floats, towards zero for integers (`T.Div`, `T.truncdiv`).
    Div,
    /// Remainder of [`BinOp::Div`], with the sign of the dividend (`T.truncmod`).
    Mod,
    /// Division towards minus infinity (`//`).
    FloorDiv,
    /// Remainder of [`BinOp::FloorDiv`], with the sign of the divisor (`%`).
    FloorMod,
    /// The smaller operand; the second operand if one is a NaN, as in `a < b ? a : b`.
    Min,
    /// The larger operand; the second operand if one is a NaN, as in `a > b ? a : b`.
    Max,
    /// Logical and of booleans. The right side is evaluated only if the left one is true.
    And,
    /// Logical or of booleans. The right side is evaluated only if the left one is false.
    Or,
}

impl BinOp {
    /// The name of TVM's node, as in `T.Add(a, b)`.
    pub fn node_name(self) -> &'static str {
        match self {
            BinOp::Add => "Add",
            BinOp::Sub => "Sub",
            BinOp::Mul => "Mul",
            BinOp::Div => "Div",
            BinOp::Mod => "Mod",
            BinOp::FloorDiv => "FloorDiv",
            BinOp::FloorMod => "FloorMod",
            BinOp::Min => "Min",
            BinOp::Max => "Max",
            BinOp::And => "And",
            BinOp::Or => "Or",
        }
    }

    /// Whether the operands can be exchanged (for integers and, up to rounding and NaN, for floats).
    pub fn is_commutative(self) -> bool {
        matches!(self, BinOp::Add | BinOp::Mul | BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or)
    }
}

/// A comparison; the result is `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the comparison it names")]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CmpOp {
    /// The operator's token.
    pub fn token(self) -> &'static str {
        match self {
            CmpOp::Eq => "==",
            CmpOp::Ne => "!=",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
        }
    }

    /// The name of TVM's node, as in `T.EQ(a, b)`.
    pub fn node_name(self) -> &'static str {
        match self {
            CmpOp::Eq => "EQ",
            CmpOp::Ne => "NE",
            CmpOp::Lt => "LT",
            CmpOp::Le => "LE",
            CmpOp::Gt => "GT",
            CmpOp::Ge => "GE",
        }
    }

    /// The comparison with its operands exchanged.
    pub fn swapped(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Eq,
            CmpOp::Ne => CmpOp::Ne,
            CmpOp::Lt => CmpOp::Gt,
            CmpOp::Le => CmpOp::Ge,
            CmpOp::Gt => CmpOp::Lt,
            CmpOp::Ge => CmpOp::Le,
        }
    }

    /// The negated comparison.
    pub fn negated(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Le,
            CmpOp::Ge => CmpOp::Lt,
        }
    }

    /// Whether the comparison holds between two values.
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
        }
    }
}

/// The type of an intrinsic's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// The type of the first argument.
    First,
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
}

/// Admissible types of an intrinsic's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// Floating-point numbers only.
    Float,
    /// Integers and booleans only.
    Integer,
    /// Any number.
    Number,
    /// Booleans only.
    Bool,
}

impl Domain {
    /// Whether the type is admissible.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Domain::Float => dtype.is_float(),
            Domain::Integer => dtype.is_integer() || dtype == DType::Bool,
            Domain::Number => dtype.is_float() || dtype.is_integer(),
            Domain::Bool => dtype == DType::Bool,
        }
    }
}

macro_rules! intrinsics {
    ($($(#[$doc:meta])* $variant:ident $name:literal $arity:literal $domain:ident $result:ident;)*) => {
        /// A function of scalars, called by name as `T.<name>(…)`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Intrinsic { $($(#[$doc])* $variant,)* }

        impl Intrinsic {
            /// All intrinsics.
            pub const ALL: &[Intrinsic] = &[$(Intrinsic::$variant,)*];

            /// The name after `T.`.
            pub fn name(self) -> &'static str {
                match self { $(Intrinsic::$variant => $name,)* }
            }

            /// The number of arguments.
            pub fn arity(self) -> usize {
                match self { $(Intrinsic::$variant => $arity,)* }
            }

            /// Admissible types of the arguments.
            pub fn domain(self) -> Domain {
                match self { $(Intrinsic::$variant => Domain::$domain,)* }
            }

            /// Type of the result.
            pub fn result(self) -> ResultType {
                match self { $(Intrinsic::$variant => ResultType::$result,)* }
            }

            /// The intrinsic called `name`.
            pub fn from_name(name: &str) -> Option<Intrinsic> {
                match name { $($name => Some(Intrinsic::$variant),)* _ => None }
            }
        }
    };
}

intrinsics! {
    /// e to the power of the argument.
    Exp "exp" 1 Float First;
    /// 2 to the power of the argument.
    Exp2 "exp2" 1 Float First;
    /// 10 to the power of the argument.
    Exp10 "exp10" 1 Float First;
    /// Natural logarithm.
    Log "log" 1 Float First;
    /// Binary logarithm.
    Log2 "log2" 1 Float First;
    /// Decimal logarithm.
    Log10 "log10" 1 Float First;
    /// ln(1 + x), exact near zero.
    Log1p "log1p" 1 Float First;
    /// Square root.
    Sqrt "sqrt" 1 Float First;
    /// 1 / sqrt(x).
    Rsqrt "rsqrt" 1 Float First;
    /// Hyperbolic tangent.
    Tanh "tanh" 1 Float First;
    /// Sine of radians.
    Sin "sin" 1 Float First;
    /// Cosine of radians.
    Cos "cos" 1 Float First;
    /// Tangent of radians.
    Tan "tan" 1 Float First;
    /// Inverse sine.
    Asin "asin" 1 Float First;
    /// Inverse cosine.
    Acos "acos" 1 Float First;
    /// Inverse tangent.
    Atan "atan" 1 Float First;
    /// Hyperbolic sine.
    Sinh "sinh" 1 Float First;
    /// Hyperbolic cosine.
    Cosh "cosh" 1 Float First;
    /// Inverse hyperbolic sine.
    Asinh "asinh" 1 Float First;
    /// Inverse hyperbolic cosine.
    Acosh "acosh" 1 Float First;
    /// Inverse hyperbolic tangent.
    Atanh "atanh" 1 Float First;
    /// Angle of the point (x, y) for arguments y, x.
    Atan2 "atan2" 2 Float First;
    /// Error function.
    Erf "erf" 1 Float First;
    /// 1 / (1 + exp(-x)).
    Sigmoid "sigmoid" 1 Float First;
    /// First argument to the power of the second.
    Pow "pow" 2 Float First;
    /// Remainder with the sign of the dividend.
    Fmod "fmod" 2 Float First;
    /// Length of the hypotenuse.
    Hypot "hypot" 2 Float First;
    /// The number next to the first argument in the direction of the second; the second one if both are equal.
    NextAfter "nextafter" 2 Float First;
    /// Magnitude of the first argument with the sign of the second.
    CopySign "copysign" 2 Float First;
    /// a * b + c with one rounding.
    Fma "fma" 3 Float First;
    /// Absolute value; wraps for the smallest signed integer.
    Abs "abs" 1 Number First;
    /// Largest integer not above the argument.
    Floor "floor" 1 Float First;
    /// Smallest integer not below the argument.
    Ceil "ceil" 1 Float First;
    /// The argument rounded towards zero.
    Trunc "trunc" 1 Float First;
    /// Nearest integer, halves to even (TVM's `tir.round`).
    Round "round" 1 Float First;
    /// Nearest integer, halves to even.
    NearbyInt "nearbyint" 1 Float First;
    /// Is the argument not a number?
    IsNan "isnan" 1 Float Bool;
    /// Is the argument infinite?
    IsInf "isinf" 1 Float Bool;
    /// Is the argument neither infinite nor NaN?
    IsFinite "isfinite" 1 Float Bool;
    /// Number of one bits.
    PopCount "popcount" 1 Integer First;
    /// Number of leading zero bits.
    Clz "clz" 1 Integer Int32;
    /// Bitwise and.
    BitAnd "bitwise_and" 2 Integer First;
    /// Bitwise or.
    BitOr "bitwise_or" 2 Integer First;
    /// Bitwise exclusive or.
    BitXor "bitwise_xor" 2 Integer First;
    /// Bitwise complement.
    BitNot "bitwise_not" 1 Integer First;
    /// Left shift; a count outside the type's width gives 0.
    ShiftLeft "shift_left" 2 Integer First;
    /// Right shift, arithmetic for signed types; a count outside the type's width gives 0 or -1.
    ShiftRight "shift_right" 2 Integer First;
    /// The argument, with a hint that it is usually true.
    Likely "likely" 1 Bool First;
    /// A fact on which the program may rely, as a statement: `T.evaluate(T.assume(cond))`. No effect.
    Assume "assume" 1 Bool First;
}

/// Side effects of a [`Builtin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None: the value depends on the arguments alone.
    Pure,
    /// The value may differ from call to call, but nothing is changed.
    Read,
    /// Unknown: schedules neither remove, repeat nor reorder the call.
    Opaque,
}

/// The source of the type of a [`Builtin`]'s result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Typing {
    /// The text states the type as the first argument: `T.reinterpret("int32", x)`.
    Stated,
    /// The text states the type as the last argument: `T.tvm_struct_get(handle, 0, 1, "int32")`.
    StatedLast,
    /// The result type of the called function of the module.
    Returned,
    /// `int32`.
    Int32,
    /// `bool`.
    Bool,
    /// An address.
    Handle,
    /// The call has no value.
    Void,
    /// The type of the first argument.
    First,
}

macro_rules! builtins {
    ($($(#[$doc:meta])* $variant:ident $name:literal $typing:ident $effect:ident $min:literal $max:literal;)*) => {
        /// A TVM function that is not a function of scalars alone, called by name as `T.<name>(…)`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Builtin { $($(#[$doc])* $variant,)* }

        impl Builtin {
            /// All builtins.
            pub const ALL: &[Builtin] = &[$(Builtin::$variant,)*];

            /// The name after `T.`.
            pub fn name(self) -> &'static str {
                match self { $(Builtin::$variant => $name,)* }
            }

            /// The source of the result's type.
            pub fn typing(self) -> Typing {
                match self { $(Builtin::$variant => Typing::$typing,)* }
            }

            /// Side effects of a call.
            pub fn effect(self) -> Effect {
                match self { $(Builtin::$variant => Effect::$effect,)* }
            }

            /// Minimum and maximum number of arguments, without a stated type.
            pub fn arity(self) -> (usize, usize) {
                match self { $(Builtin::$variant => ($min, $max),)* }
            }

            /// The builtin called `name`.
            pub fn from_name(name: &str) -> Option<Builtin> {
                match name { $($name => Some(Builtin::$variant),)* _ => None }
            }

            /// Whether the text calls it as `T.` and its name.
            pub fn has_name(self) -> bool {
                !self.name().contains(' ')
            }
        }
    };
}

builtins! {
    /// The bits of the argument as another type of equally many bits: lane 0 first, low bytes first.
    Reinterpret "reinterpret" Stated Pure 1 1;
    /// The first half of a vector's lanes.
    VectorLow "vectorlow" Stated Pure 1 1;
    /// The second half of a vector's lanes.
    VectorHigh "vectorhigh" Stated Pure 1 1;
    /// The lanes of the first vector, then those of the second.
    VectorCombine "vectorcombine" Stated Pure 2 2;
    /// An arbitrary value, on which the program does not depend.
    Undef "undef" Int32 Read 0 0;
    /// `round(x * y * 2^(s - q))` of `int32` `x`, `y`, `q` and `s`, computed in `int64`; halves round up. A
    /// positive `s` first shifts `x` to the left.
    QMultiplyShift "q_multiply_shift" First Pure 4 4;
    /// `q_multiply_shift` with a left shift before and a right shift after the product: `x`, `y`, `left`, `right`, `q`,
    /// and two booleans that enable the shifts.
    QMultiplyShiftPerAxis "q_multiply_shift_per_axis" First Pure 7 7;
    /// The first argument, a float, times 2 to the power of the second, an `int32`.
    Ldexp "ldexp" First Pure 2 2;
    /// A C function by its name, with effects.
    CallExtern "call_extern" Stated Opaque 1 255;
    /// A C function by its name, without effects.
    CallPureExtern "call_pure_extern" Stated Pure 1 255;
    /// A function of TVM's registry by its name.
    CallPacked "call_packed" Int32 Opaque 1 255;
    /// A function of TVM's registry by its name, with the calling convention of C.
    CallCPacked "call_cpacked" Int32 Opaque 1 255;
    /// An intrinsic of LLVM by its name, with effects.
    CallLlvmIntrin "call_llvm_intrin" Stated Opaque 1 255;
    /// An intrinsic of LLVM by its name, without effects.
    CallLlvmPureIntrin "call_llvm_pure_intrin" Stated Pure 1 255;
    /// The address of an element.
    AddressOf "address_of" Handle Pure 1 1;
    /// The address of elements of a buffer's data: their type, the data, offset, extent, and 1 for reading, 2 for
    /// writing, 3 for both.
    AccessPtr "tvm_access_ptr" Handle Pure 5 5;
    /// A type, as an argument.
    TypeAnnotation "type_annotation" Stated Pure 0 0;
    /// A description of an array for a packed function: data, shape, strides, number of dimensions, a value of the
    /// element type, offset.
    StackMakeArray "tvm_stack_make_array" Handle Read 6 6;
    /// A shape for a packed function.
    StackMakeShape "tvm_stack_make_shape" Handle Read 0 255;
    /// Whether an address is null.
    IsNullPtr "isnullptr" Bool Pure 1 1;
    /// Marks the start of a time measurement; no effect here.
    StartProfile "start_profile_intrinsic" Handle Opaque 1 1;
    /// Marks the end of a time measurement; no effect here.
    EndProfile "end_profile_intrinsic" Handle Opaque 1 1;
    /// A barrier of GPU threads: its scope, and two arguments for barriers of all blocks, without effect here.
    StorageSync "tvm_storage_sync" Int32 Opaque 1 3;
    /// The argument, hidden from TVM's loop partitioning.
    IgnoreLoopPartition "ignore_loop_partition" First Pure 1 1;
    /// A function of the module by its name, written `Module.name(…)`; it has no `T.` name.
    CallModule "call of the module" Returned Opaque 1 255;
    /// A buffer as an argument: the text has the buffer's name, the node its data.
    WholeBuffer "whole buffer" Handle Read 1 1;
    /// The last argument of a call that returns an address whose target the text states: the scope, typed as the
    /// elements.
    PointerType "pointer type" Handle Pure 1 1;
    /// A masked vector load: the buffer, an index for each dimension, a condition for each lane.
    MaskedLoad "masked_load" Stated Read 3 255;
    /// A masked vector store: the buffer, the value, an index for each dimension, a condition for each lane.
    MaskedStore "masked_store" Void Opaque 4 255;
    /// An address plus a number of bytes.
    AddByteOffset "handle_add_byte_offset" Handle Pure 2 2;
    /// An address of elements of a type, plus a number of bytes.
    PtrByteOffset "ptr_byte_offset" Handle Pure 3 3;
    /// Several values as one argument.
    Tuple "tvm_tuple" Void Read 0 255;
    /// A parameter by its name, which is how constants of a program are passed.
    LookupParam "lookup_param" Handle Read 1 1;
    /// An item of a list of any values: the list and a position.
    AnyListGet "anylist_getitem" Handle Read 2 2;
    /// Removes an item of a list of any values: the list and a position.
    AnyListReset "anylist_resetitem" Int32 Opaque 2 2;
    /// Sets an item of a list of any values to the result of a packed function: list, position, the function's name,
    /// arguments.
    AnyListSetPacked "anylist_setitem_call_packed" Int32 Opaque 3 255;
    /// `anylist_setitem_call_packed` with the calling convention of C.
    AnyListSetCPacked "anylist_setitem_call_cpacked" Int32 Opaque 3 255;
    /// A packed function as TVM has lowered it: its name, the stack of arguments, the range of its items.
    CallPackedLowered "call_packed_lowered" Int32 Opaque 4 255;
    /// `call_packed_lowered` with the calling convention of C.
    CallCPackedLowered "call_cpacked_lowered" Int32 Opaque 4 255;
    /// Memory on the stack: its purpose and number of items.
    StackAlloca "tvm_stack_alloca" Handle Opaque 2 2;
    /// A field of a structure of TVM's runtime: its address, a position, the field's number.
    StructGet "tvm_struct_get" StatedLast Read 3 3;
    /// Sets a field of a structure of TVM's runtime: its address, a position, the field's number, the value.
    StructSet "tvm_struct_set" Int32 Opaque 4 4;
    /// Raises the last error of a packed function again.
    ThrowLastError "tvm_throw_last_error" Void Opaque 0 0;
    /// Memory from TVM's runtime: kind and number of the device, bytes, code and bits of the type.
    AllocWorkspace "TVMBackendAllocWorkspace" Handle Opaque 5 5;
    /// Returns memory to TVM's runtime: kind and number of the device, the address.
    FreeWorkspace "TVMBackendFreeWorkspace" Int32 Opaque 3 3;
}

impl Builtin {
    /// The name of the called function, if the first argument is one.
    pub fn called(self, arena: &Arena, args: ExprList) -> Symbol {
        let name = arena.list(args).first().map(|&e| arena.expr(e));
        match (self, name) {
            (
                Builtin::CallExtern
                | Builtin::CallPureExtern
                | Builtin::CallPacked
                | Builtin::CallCPacked
                | Builtin::CallPackedLowered
                | Builtin::CallCPackedLowered
                | Builtin::CallModule
                | Builtin::CallLlvmIntrin
                | Builtin::CallLlvmPureIntrin,
                Some(Expr::Str(name)),
            ) => name,
            _ => Symbol::new(&self.to_string()),
        }
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T.{}", self.name())
    }
}

impl fmt::Display for Intrinsic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T.{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for &i in Intrinsic::ALL {
            assert_eq!(Intrinsic::from_name(i.name()), Some(i));
        }
        assert_eq!(Intrinsic::from_name("exq"), None);
        for &b in Builtin::ALL {
            assert_eq!(Builtin::from_name(b.name()), Some(b));
            assert_eq!(Intrinsic::from_name(b.name()), None, "{b} has one meaning");
        }
    }
}
