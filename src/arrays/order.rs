//! Orders of elements and bytes other than those of kernels.

/// Reverses the bytes of each element.
pub(super) fn swap_bytes(data: &mut [u8], size: usize) {
    data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
}

/// The elements in row-major order, given in column-major order (the first index varies fastest).
pub(super) fn row_major(data: &[u8], size: usize, shape: &[i64]) -> Vec<u8> {
    // The distance of neighbours in column-major order, in bytes.
    let mut stride = size;
    let mut dims: Vec<(usize, usize)> = Vec::with_capacity(shape.len());
    for &extent in shape {
        let extent = usize::try_from(extent).unwrap_or(0);
        dims.push((extent, stride));
        stride = stride.saturating_mul(extent);
    }
    let mut result = Vec::with_capacity(data.len());
    let mut index = vec![0; dims.len()];
    let mut from = 0;
    while result.len() < data.len() {
        result.extend_from_slice(&data[from..from + size]);
        // Counts up: the last index varies fastest.
        for (i, &(extent, stride)) in index.iter_mut().zip(&dims).rev() {
            *i += 1;
            from += stride;
            if *i < extent {
                break;
            }
            from -= stride * extent;
            *i = 0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_rows() {
        // Element (i, j, k) of shape (2, 3, 4) is 100 i + 10 j + k.
        let value = |i: u16, j: u16, k: u16| (100 * i + 10 * j + k).to_le_bytes();
        let columns: Vec<u8> =
            (0..4).flat_map(|k| (0..3).flat_map(move |j| (0..2).flat_map(move |i| value(i, j, k)))).collect();
        let rows: Vec<u8> =
            (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).flat_map(move |k| value(i, j, k)))).collect();
        assert_eq!(row_major(&columns, 2, &[2, 3, 4]), rows);
        assert_eq!(row_major(&[7, 8], 2, &[]), [7, 8]);
        assert!(row_major(&[], 2, &[3, 0]).is_empty());
    }

    #[test]
    fn bytes_are_swapped_in_each_element() {
        let mut data = [1, 2, 3, 4];
        swap_bytes(&mut data, 2);
        assert_eq!(data, [2, 1, 4, 3]);
    }
}
