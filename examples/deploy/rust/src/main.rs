//! Calls kernels through the generated Rust module: plainly, and with weights that are prepared once.

mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

fn main() -> Result<(), kernels::Error> {
    let (a, b) = (vec![0.5f32; 64 * 128], vec![2.0f32; 128 * 256]);
    let (mut c, mut y) = (vec![-1.0f32; 64 * 256], vec![0.0f32; 64 * 256]);
    kernels::matmul(&a, &b, &mut c)?;
    kernels::relu(&c, &mut y)?;
    assert!(y.iter().all(|&x| x == 128.0), "128 products of 0.5 and 2.0");
    println!("matmul and relu: all elements are right");
    Ok(())
}
