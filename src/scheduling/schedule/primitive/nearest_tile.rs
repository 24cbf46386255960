//! Adapts tile sizes to another extent.
//!
//! A search changes one decision of a trace and keeps the others. If an earlier decision determines the extent of a
//! loop, the tile sizes of that loop may become invalid; but their good properties, above all the innermost sizes,
//! should stay.

/// The factors of `extent` that are nearest to the preferred ones. From the innermost outwards, each is the divisor of
/// the remaining extent that is nearest to the preferred size by ratio, the smaller one on ties; the outermost takes
/// the rest. The innermost one is at most `limit`, unless that is -1. Preferred factors whose product is the extent
/// stay unchanged.
pub(super) fn nearest_tile(extent: i64, preferred: &[i64], limit: i64) -> Vec<i64> {
    let product = preferred.iter().try_fold(1i64, |p, &w| if w > 0 { p.checked_mul(w) } else { None });
    if product == Some(extent) {
        return preferred.to_vec();
    }
    let mut tile = preferred.to_vec();
    let mut rest = extent;
    for i in (1..tile.len()).rev() {
        let most = if i + 1 == tile.len() && limit > 0 { limit } else { i64::MAX };
        tile[i] = nearest_divisor(rest, preferred[i].max(1), most);
        rest /= tile[i];
    }
    if let Some(outermost) = tile.first_mut() {
        *outermost = rest;
    }
    tile
}

/// The divisor of `n` up to `most` that is nearest to `preferred` by ratio.
fn nearest_divisor(n: i64, preferred: i64, most: i64) -> i64 {
    // The ratio as a number above 1, so that 6 is as far from 3 as from 12.
    let distance = |d: i64| if d > preferred { d as f64 / preferred as f64 } else { preferred as f64 / d as f64 };
    let mut best = 1;
    let mut look = |d: i64| {
        let (new, old) = (distance(d), distance(best));
        if d <= most && (new < old || new == old && d < best) {
            best = d;
        }
    };
    let mut d = 1;
    while d * d <= n {
        if n % d == 0 {
            look(d);
            look(n / d);
        }
        d += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays() {
        assert_eq!(nearest_tile(128, &[2, 4, 16], 8), [2, 4, 16]);
        assert_eq!(nearest_tile(1, &[1, 1], -1), [1, 1]);
    }

    #[test]
    fn inner_sizes_are_kept_first() {
        // The loop is half as long as before.
        assert_eq!(nearest_tile(64, &[2, 4, 16], -1), [1, 4, 16]);
        assert_eq!(nearest_tile(16, &[2, 4, 16], -1), [1, 1, 16]);
        // 13 is not a divisor: 14 is nearer than 8.
        assert_eq!(nearest_tile(112, &[2, 4, 13], -1), [2, 4, 14]);
        assert_eq!(nearest_tile(127, &[4, 32], -1), [1, 127]);
        assert_eq!(nearest_tile(127, &[4, 32], 64), [127, 1]);
    }

    #[test]
    fn nonsense_becomes_something_that_fits() {
        for preferred in [&[0, 0, 0][..], &[-1, 1], &[i64::MAX, i64::MAX, 7]] {
            let tile = nearest_tile(360, preferred, -1);
            assert_eq!(tile.iter().product::<i64>(), 360, "{preferred:?} became {tile:?}");
        }
    }
}
