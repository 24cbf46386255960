//! Scalar functions that compiled code calls by name.

use super::math;
use crate::ir::{DType, Intrinsic};

/// A function of one or two floats that returns a float of the same type.
#[derive(Clone, Copy)]
pub(crate) struct ScalarFunction {
    /// Its symbol.
    pub name: &'static str,
    /// Its address.
    pub address: *const u8,
}

// SAFETY: the address of a function is valid anywhere.
unsafe impl Sync for ScalarFunction {}

macro_rules! functions {
    ($($intrinsic:ident $f32:ident $f64:ident;)*) => {
        /// The function of an intrinsic for a type; half-precision types pass `float32`. `None` if it is an instruction.
        pub(crate) fn scalar_function(intrinsic: Intrinsic, dtype: DType) -> Option<&'static ScalarFunction> {
            $(
                #[expect(non_upper_case_globals, reason = "it is named as its function")]
                static $f32: ScalarFunction = ScalarFunction { name: stringify!($f32), address: math::$f32 as *const u8 };
                #[expect(non_upper_case_globals, reason = "it is named as its function")]
                static $f64: ScalarFunction = ScalarFunction { name: stringify!($f64), address: math::$f64 as *const u8 };
            )*
            match (intrinsic, dtype) {
                // Neighbours are those in the type.
                (Intrinsic::NextAfter, DType::Float16) => Some(&NEXT_F16),
                (Intrinsic::NextAfter, DType::BFloat16) => Some(&NEXT_BF16),
                $((Intrinsic::$intrinsic, DType::Float64) => Some(&$f64),)*
                $((Intrinsic::$intrinsic, _) => Some(&$f32),)*
                _ => None,
            }
        }

        fn intrinsic_address(name: &str) -> Option<*const u8> {
            $(if name == stringify!($f32) { return Some(math::$f32 as *const u8); })*
            $(if name == stringify!($f64) { return Some(math::$f64 as *const u8); })*
            None
        }
    };
}

functions! {
    Exp tvmr_exp_f32 tvmr_exp_f64;
    Exp2 tvmr_exp2_f32 tvmr_exp2_f64;
    Exp10 tvmr_exp10_f32 tvmr_exp10_f64;
    Log tvmr_log_f32 tvmr_log_f64;
    Log2 tvmr_log2_f32 tvmr_log2_f64;
    Log10 tvmr_log10_f32 tvmr_log10_f64;
    Log1p tvmr_log1p_f32 tvmr_log1p_f64;
    Tanh tvmr_tanh_f32 tvmr_tanh_f64;
    Sin tvmr_sin_f32 tvmr_sin_f64;
    Cos tvmr_cos_f32 tvmr_cos_f64;
    Tan tvmr_tan_f32 tvmr_tan_f64;
    Asin tvmr_asin_f32 tvmr_asin_f64;
    Acos tvmr_acos_f32 tvmr_acos_f64;
    Atan tvmr_atan_f32 tvmr_atan_f64;
    Sinh tvmr_sinh_f32 tvmr_sinh_f64;
    Cosh tvmr_cosh_f32 tvmr_cosh_f64;
    Asinh tvmr_asinh_f32 tvmr_asinh_f64;
    Acosh tvmr_acosh_f32 tvmr_acosh_f64;
    Atanh tvmr_atanh_f32 tvmr_atanh_f64;
    Erf tvmr_erf_f32 tvmr_erf_f64;
    Sigmoid tvmr_sigmoid_f32 tvmr_sigmoid_f64;
    Atan2 tvmr_atan2_f32 tvmr_atan2_f64;
    Pow tvmr_pow_f32 tvmr_pow_f64;
    Fmod tvmr_fmod_f32 tvmr_fmod_f64;
    Hypot tvmr_hypot_f32 tvmr_hypot_f64;
    NextAfter tvmr_nextafter_f32 tvmr_nextafter_f64;
}

/// Conversion of `float64` to `float16` bits, rounded once.
pub(crate) static F64_TO_F16: ScalarFunction =
    ScalarFunction { name: "tvmr_f64_to_f16", address: math::tvmr_f64_to_f16 as *const u8 };
/// Conversion of `float64` to `bfloat16` bits, rounded once.
pub(crate) static F64_TO_BF16: ScalarFunction =
    ScalarFunction { name: "tvmr_f64_to_bf16", address: math::tvmr_f64_to_bf16 as *const u8 };

static NEXT_F16: ScalarFunction =
    ScalarFunction { name: "tvmr_nextafter_f16", address: math::tvmr_nextafter_f16 as *const u8 };
static NEXT_BF16: ScalarFunction =
    ScalarFunction { name: "tvmr_nextafter_bf16", address: math::tvmr_nextafter_bf16 as *const u8 };

/// The address of a symbol that compiled code refers to.
pub(crate) fn address_of(name: &str) -> Option<*const u8> {
    [&F64_TO_F16, &F64_TO_BF16, &NEXT_F16, &NEXT_BF16]
        .into_iter()
        .find(|f| f.name == name)
        .map(|f| f.address)
        .or_else(|| intrinsic_address(name))
        .or_else(|| libcall_address(name))
}

/// The functions that Cranelift calls on CPUs that lack an instruction: fused multiply-add and rounding.
fn libcall_address(name: &str) -> Option<*const u8> {
    extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
        x.mul_add(y, z)
    }
    extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
        x.mul_add(y, z)
    }
    macro_rules! rounding {
        ($($f:ident $f32:ident $method:ident),*) => {
            $(extern "C" fn $f(x: f64) -> f64 { x.$method() }
              extern "C" fn $f32(x: f32) -> f32 { x.$method() })*
        };
    }
    rounding!(ceil ceilf ceil, floor floorf floor, trunc truncf trunc, nearbyint nearbyintf round_ties_even);
    match name {
        "fma" => Some(fma as *const u8),
        "fmaf" => Some(fmaf as *const u8),
        "ceil" => Some(ceil as *const u8),
        "ceilf" => Some(ceilf as *const u8),
        "floor" => Some(floor as *const u8),
        "floorf" => Some(floorf as *const u8),
        "trunc" => Some(trunc as *const u8),
        "truncf" => Some(truncf as *const u8),
        "nearbyint" => Some(nearbyint as *const u8),
        "nearbyintf" => Some(nearbyintf as *const u8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name() {
        for &intrinsic in Intrinsic::ALL {
            for dtype in [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64] {
                if let Some(f) = scalar_function(intrinsic, dtype) {
                    assert_eq!(address_of(f.name), Some(f.address), "{}", f.name);
                }
            }
        }
        assert_eq!(address_of("tvmr_nothing"), None);
    }
}
