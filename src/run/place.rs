//! Arrays in the memory of parameters, whose elements may have other distances than in an array.

use crate::ir::ParamLayout;

/// The places of the elements of a parameter, in row-major order.
fn places(layout: &ParamLayout) -> impl Iterator<Item = usize> + '_ {
    let n: i64 = layout.extents.iter().product();
    (0..n).filter_map(|element| {
        let (mut rest, mut place) = (element, layout.offset);
        for (&extent, &stride) in layout.extents.iter().zip(&layout.strides).rev() {
            place += rest % extent * stride;
            rest /= extent;
        }
        usize::try_from(place).ok()
    })
}

/// Puts the elements of an array into the memory of a parameter. Returns false if different elements share a place.
pub(super) fn put(memory: &mut [u8], layout: &ParamLayout, size: usize, array: &[u8]) -> bool {
    for (element, place) in array.chunks_exact(size).zip(places(layout)) {
        memory[place * size..(place + 1) * size].copy_from_slice(element);
    }
    take(memory, layout, size) == array
}

/// The elements in the memory of a parameter, as an array has them.
pub(super) fn take(memory: &[u8], layout: &ParamLayout, size: usize) -> Vec<u8> {
    places(layout).flat_map(|place| &memory[place * size..(place + 1) * size]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_where_the_layout_says() {
        let layout = ParamLayout { extents: vec![2, 3], strides: vec![8, 2], offset: 1 };
        let mut memory = vec![0; 2 * 16];
        let array: Vec<u8> = (1..=12).collect();
        assert!(put(&mut memory, &layout, 2, &array));
        assert_eq!(memory[2..4], [1, 2]);
        assert_eq!(memory[6..8], [3, 4]);
        assert_eq!(memory[18..20], [7, 8]);
        assert_eq!(memory[4..6], [0, 0], "a gap stays as it was");
        assert_eq!(take(&memory, &layout, 2), array);
        let shared = ParamLayout { extents: vec![2, 3], strides: vec![0, 1], offset: 0 };
        assert!(!put(&mut memory, &shared, 2, &array));
        assert!(put(&mut memory, &shared, 2, &[array[..6].to_vec(), array[..6].to_vec()].concat()));
    }
}
