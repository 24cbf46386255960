//! The functions that Cranelift and LLVM call on CPUs that lack an instruction.

macro_rules! functions {
    ($($f:ident $f32:ident = $libm:ident $libm32:ident ($($x:ident),*);)*) => {
        $(#[unsafe(no_mangle)]
          extern "C" fn $f($($x: f64),*) -> f64 { libm::$libm($($x),*) }
          #[unsafe(no_mangle)]
          extern "C" fn $f32($($x: f32),*) -> f32 { libm::$libm32($($x),*) })*
    };
}

functions! {
    tvmr_libcall_fma tvmr_libcall_fmaf = fma fmaf (x, y, z);
    tvmr_libcall_ceil tvmr_libcall_ceilf = ceil ceilf (x);
    tvmr_libcall_floor tvmr_libcall_floorf = floor floorf (x);
    tvmr_libcall_trunc tvmr_libcall_truncf = trunc truncf (x);
    tvmr_libcall_nearbyint tvmr_libcall_nearbyintf = rint rintf (x);
}
