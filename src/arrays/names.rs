//! Which array of a file is meant by the name of a parameter.
//!
//! Frameworks call weights `fc1.weight` and `gpu_0/data_0`, and programs `fc1_weight` and `gpu_0_data_0`.

use super::file::ArrayFile;
use crate::ir::identifier;

impl ArrayFile {
    /// The position of the array for a parameter: the one of its name; else the only one whose name as an [`identifier`] is that of the
    /// parameter. `None` if there is no such array, or more than one.
    pub fn position_for(&self, param: &str) -> Option<usize> {
        let names = self.names();
        names.iter().position(|name| *name == param).or_else(|| {
            let mut all = names.iter().enumerate().filter(|(_, name)| identifier(name) == param);
            match (all.next(), all.next()) {
                (Some((position, _)), None) => Some(position),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Array, write};
    use super::*;

    #[test]
    fn names_become_identifiers_unless_several_do() {
        let path = std::env::temp_dir().join(format!("tvmr-names-{}.npz", std::process::id()));
        let array = Array::from(&[1.0f32][..]);
        let names = ["a.b", "a/c", "d_e", "d.e", "f-g", "f.g", "h-0 i"];
        write(&path, &names.map(|name| (name, &array))).unwrap_or_else(|e| panic!("{e}"));
        let file = ArrayFile::open(&path).unwrap_or_else(|e| panic!("{e}"));
        let found = ["a_b", "a_c", "d_e", "f_g", "h_0_i", "a_d"].map(|param| file.position_for(param));
        let position = |name: &str| file.names().iter().position(|n| *n == name);
        let expected = [position("a.b"), position("a/c"), position("d_e"), None, position("h-0 i"), None];
        assert_eq!(found, expected);
        std::fs::remove_file(path).unwrap_or_else(|e| panic!("{e}"));
    }
}
