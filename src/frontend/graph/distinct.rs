//! Tensors with known elements, each content once.
//!
//! Versions of a model for several sizes have the same weights, and layers of a model may have equal constants. What is stored of
//! them, in memory or in files, needs each content only once.

use super::constant::Constant;
use hashbrown::HashMap;

/// The content of a tensor's bytes: 256 bits of BLAKE3, so that equal digests mean equal bytes.
pub type Digest = [u8; 32];

/// Tensors without repeated contents. Types and shapes do not count: only the bytes of the elements do.
#[derive(Clone, Default)]
pub struct DistinctConstants {
    items: Vec<Constant>,
    digests: Vec<Digest>,
    by_digest: HashMap<Digest, usize>,
    /// The items again, by the addresses of their elements: a tensor that shares them need not be hashed.
    by_address: HashMap<(usize, usize), usize>,
}

impl DistinctConstants {
    /// Adds the content of a tensor, unless it is there. Returns its position.
    pub fn insert(&mut self, constant: &Constant) -> usize {
        if let Some(&known) = self.by_address.get(&address(constant)) {
            return known;
        }
        let digest = digest(constant);
        if let Some(&known) = self.by_digest.get(&digest) {
            return known;
        }
        let position = self.items.len();
        self.items.push(constant.clone());
        self.digests.push(digest);
        self.by_digest.insert(digest, position);
        self.by_address.insert(address(constant), position);
        position
    }

    /// The position of a tensor's content, if it is there.
    pub fn position(&self, constant: &Constant) -> Option<usize> {
        let known = self.by_address.get(&address(constant));
        known.or_else(|| self.by_digest.get(&digest(constant))).copied()
    }

    /// The tensor itself, but with the elements of an equal one that was added before, if there is one. Else it is added.
    pub fn shared(&mut self, constant: Constant) -> Constant {
        let position = self.insert(&constant);
        constant.sharing(&self.items[position])
    }

    /// The tensors, in the order in which they were added.
    pub fn items(&self) -> &[Constant] {
        &self.items
    }

    /// The contents of [`items`](DistinctConstants::items).
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The size of all contents in bytes.
    pub fn bytes(&self) -> usize {
        self.items.iter().map(|c| c.data().len()).sum()
    }
}

fn digest(constant: &Constant) -> Digest {
    *blake3::hash(constant.data()).as_bytes()
}

/// Where the elements lie. Items are never removed, so their addresses stay theirs.
fn address(constant: &Constant) -> (usize, usize) {
    (constant.data().as_ptr().addr(), constant.data().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    fn bytes(shape: &[i64], data: &[u8]) -> Constant {
        Constant::new(DType::UInt8, shape, data.to_vec()).expect("a tensor")
    }

    #[test]
    fn equal_bytes_are_kept_once() {
        let mut all = DistinctConstants::default();
        let (a, b, c) = (bytes(&[2, 2], &[1, 2, 3, 4]), bytes(&[4], &[1, 2, 3, 4]), bytes(&[2], &[1, 2]));
        assert_eq!([&a, &b, &c, &a].map(|x| all.insert(x)), [0, 0, 1, 0]);
        assert_eq!((all.items().len(), all.bytes(), all.position(&b)), (2, 6, Some(0)));
        assert_eq!(all.position(&bytes(&[0], &[])), None);
        let shared = all.shared(b);
        assert_eq!((shared.shape(), shared.data().as_ptr()), (&[4][..], a.data().as_ptr()));
    }
}
