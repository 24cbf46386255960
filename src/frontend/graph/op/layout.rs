//! Layouts: which dimension of a tensor is which.
//!
//! `NCHW16c` says that dimension 0 counts images, 1 blocks of channels, 2 rows, 3 columns, and 4 the 16 channels of a block.

use super::*;
use crate::graph::infer::Args;

/// A layout with known spatial dimensions.
pub(super) struct Layout {
    /// The text.
    pub name: &'static str,
    /// One letter for each dimension; the last of those of blocks are small.
    letters: Vec<char>,
    /// The spatial dimensions, from the outermost to the innermost.
    pub spatial: Vec<usize>,
}

impl Layout {
    /// A layout whose dimensions have the letters of `others` and `spatial`, each once and in any order.
    pub(super) fn plain(args: &Args<'_>, param: &str, others: &str, spatial: &str) -> Result<Layout, OpError> {
        let layout = Layout::blocked(args, param, others, spatial)?;
        match layout.letters.len() == others.len() + spatial.len() {
            true => Ok(layout),
            false => args.fail(format!("`{param}` must have no blocks, found `{}`", layout.name)),
        }
    }

    /// As [`Layout::plain`], but the dimensions that are not spatial may have blocks.
    pub(super) fn blocked(args: &Args<'_>, param: &str, others: &str, spatial: &str) -> Result<Layout, OpError> {
        let name = args.text(param);
        let mut letters = Vec::with_capacity(name.len());
        let mut factor = String::new();
        let mut fits = true;
        for c in name.chars() {
            if c.is_ascii_digit() {
                factor.push(c);
                continue;
            }
            let upper = c.to_ascii_uppercase();
            fits &= match factor.is_empty() {
                true => others.contains(c) || spatial.contains(c),
                false => c.is_ascii_lowercase() && others.contains(upper),
            };
            fits &= !letters.contains(&c);
            factor.clear();
            letters.push(c);
        }
        fits &= factor.is_empty() && others.chars().chain(spatial.chars()).all(|c| letters.contains(&c));
        if !fits {
            let all: Vec<String> = others.chars().chain(spatial.chars()).map(String::from).collect();
            return args.fail(format!("`{param}` must order the dimensions {}, found `{name}`", all.join(", ")));
        }
        let at = |c: char| letters.iter().position(|&l| l == c);
        let spatial = spatial.chars().filter_map(at).collect();
        Ok(Layout { name, letters, spatial })
    }

    /// The number of dimensions.
    pub(super) fn rank(&self) -> usize {
        self.letters.len()
    }

    /// The dimension of a letter.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn at(&self, letter: char) -> usize {
        self.letters.iter().position(|&l| l == letter).expect("the layout was checked")
    }

    /// Items in the places of their dimensions: two that are not spatial, and the spatial ones.
    pub(super) fn placed(&self, a: (char, ExprId), b: (char, ExprId), spatial: &[ExprId]) -> Vec<ExprId> {
        let mut items = vec![a.1; self.rank()];
        items[self.at(b.0)] = b.1;
        for (&at, &item) in self.spatial.iter().zip(spatial) {
            items[at] = item;
        }
        items[self.at(a.0)] = a.1;
        items
    }

    /// The items of the spatial dimensions.
    pub(super) fn spatial_of(&self, items: &[ExprId]) -> Vec<ExprId> {
        self.spatial.iter().map(|&d| items[d]).collect()
    }
}

/// The letters of the spatial dimensions of an operator such as `nn.conv2d`.
pub(super) fn spatial_letters(args: &Args<'_>) -> &'static str {
    match args.op.name {
        name if name.contains("1d") => "W",
        name if name.contains("2d") => "HW",
        _ => "DHW",
    }
}

/// Checks that the result has the layout of the data.
pub(super) fn expect_same_layout(args: &Args<'_>, layout: &Layout) -> Result<(), OpError> {
    match args.opt_text("out_layout") {
        Some(out) if !out.is_empty() && out != layout.name => Err(OpError {
            help: Some("convert the result by `R.permute_dims`".into()),
            ..args.error(format!("`out_layout` must be that of the data, `{}`, found `{out}`", layout.name))
        }),
        _ => Ok(()),
    }
}

/// Positive integers of a parameter, one for each spatial dimension.
pub(super) fn positive(args: &Args<'_>, name: &str, n: usize) -> Result<Vec<i64>, OpError> {
    let all = args.spatial(name, n)?;
    match all.iter().find(|&&v| v < 1) {
        Some(v) => args.fail(format!("`{name}` must be positive, found {v}")),
        None => Ok(all),
    }
}

/// The padding before and after each spatial dimension; it is not negative.
pub(super) fn paddings(args: &Args<'_>, n: usize) -> Result<(Vec<i64>, Vec<i64>), OpError> {
    let (before, after) = args.padding("padding", n)?;
    match before.iter().chain(&after).find(|&&v| v < 0) {
        Some(v) => args.fail(format!("`padding` must not be negative, found {v}")),
        None => Ok((before, after)),
    }
}
