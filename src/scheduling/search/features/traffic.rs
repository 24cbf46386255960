//! Bytes that move between the levels of memory.
//!
//! For each cache there is an outermost loop whose single iteration fits it. An iteration's data is fetched once for
//! it, and an operand that does not depend on the loop stays for the next iteration. So the traffic of an access is
//! what the loop touches in total, times the iterations of the loops around it.

use super::CodeModel;
use super::leaf::{Access, Leaf, Piece};
use crate::machine::Core;

/// Traffic of a store.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Traffic {
    /// Bytes transferred between each cache and the next level behind it, in both directions.
    pub bytes: [f64; 3],
    /// Bytes touched by one iteration of the loop whose iteration fits the cache.
    pub resident: [f64; 3],
    /// Number of iterations of the loops around that loop.
    pub outside: [f64; 3],
    /// Factor by which set conflicts increase the use of the nearest cache; 1 for none.
    pub conflicts: f64,
}

impl Traffic {
    /// The traffic of a store whose loops run in this order, in a program that touches `all` bytes. Kernels run
    /// repeatedly, so data that fits a cache as a whole is there already.
    pub(crate) fn of(leaf: &Leaf, loops: &[Piece], machine: &CodeModel, all: f64) -> Traffic {
        let depth = loops.len();
        // Bytes that each access touches from each loop inwards.
        let touched: Vec<Vec<f64>> = leaf
            .accesses
            .iter()
            .map(|a| (0..=depth).map(|d| a.lines(&loops[d..], machine.line()) * machine.line()).collect())
            .collect();
        let conflicts: Vec<f64> = leaf.accesses.iter().map(|a| conflicts(a, loops, machine)).collect();
        let mut traffic = Traffic { conflicts: conflicts.iter().copied().fold(1.0, f64::max), ..Traffic::default() };
        for (level, &size) in machine.core.caches().iter().enumerate() {
            // Other data shares the cache, and its replacement is not optimal.
            let room = size as f64 * USABLE;
            let total = |d: usize| -> f64 {
                let each = touched.iter().zip(&conflicts);
                each.map(|(t, c)| if level == 0 { t[d] * c } else { t[d] }).sum()
            };
            let fits = (0..=depth).find(|&d| total(d) <= room).unwrap_or(depth);
            traffic.resident[level] = total(fits);
            traffic.outside[level] = loops[..fits].iter().map(|p| p.extent).product();
            if fits == 0 && all <= room {
                continue;
            }
            let around = fits.saturating_sub(1);
            let times: f64 = loops[..around].iter().map(|p| p.extent).product();
            for (access, touched) in leaf.accesses.iter().zip(&touched) {
                // A stored line is fetched and written back.
                let ways = if access.is_store { 2.0 } else { 1.0 };
                traffic.bytes[level] += ways * times * touched[around];
            }
        }
        traffic
    }
}

/// Share of a cache that a loop can use.
const USABLE: f64 = 0.75;

/// Factor by which an access needs more room than its lines, because its stride maps them to few sets.
fn conflicts(access: &Access, loops: &[Piece], machine: &CodeModel) -> f64 {
    if !access.is_param {
        return 1.0;
    }
    // The innermost stride of more than a line.
    let stride = |p: &Piece| (access.strides[p.level].unsigned_abs() as f64) * access.bytes;
    let Some(i) = loops.iter().rposition(|p| stride(p) > machine.line()) else { return 1.0 };
    let distance = stride(&loops[i]) as u64;
    let (line, way) = (machine.core.line as u64, Core::WAY as u64);
    if !distance.is_multiple_of(line) {
        return 1.0;
    }
    // Rows start at multiples of the greatest common divisor.
    let (mut a, mut b) = (way, distance % way);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let run = access.lines(&loops[i + 1..], machine.line()) * machine.line();
    (a as f64 / run.max(machine.line())).max(1.0)
}

/// Total bytes that a program touches: for each buffer, the maximum over its accesses.
pub(crate) fn touched(leaves: &[Leaf], machine: &CodeModel) -> f64 {
    let mut buffers: Vec<(crate::ir::buffer::BufferId, f64)> = Vec::new();
    for leaf in leaves {
        let loops = leaf.pieces();
        for a in &leaf.accesses {
            let bytes = a.lines(&loops, machine.line()) * machine.line();
            match buffers.iter_mut().find(|(b, _)| *b == a.buffer) {
                Some((_, most)) => *most = most.max(bytes),
                None => buffers.push((a.buffer, bytes)),
            }
        }
    }
    buffers.iter().map(|(_, bytes)| bytes).sum()
}
