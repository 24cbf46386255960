//! Results whose shapes depend on elements: they are computed while the model is read, where these elements are known.

use super::*;
use crate::graph::Constant;

pub(super) static OPERATORS: &[Operator] = &[
    one("NonMaxSuppression", 10, |n| {
        let boxes = n.known_constant(0)?;
        let scores = n.known_constant(1)?;
        let mut number = |i: usize, default: f64| -> Result<f64> {
            match n.has(i) {
                true => Ok(n.known_floats(i)?.first().copied().unwrap_or(default)),
                false => Ok(default),
            }
        };
        // Without a largest number there are no boxes.
        let most = number(2, 0.0)?.max(0.0) as usize;
        let overlap = number(3, 0.0)?;
        let least = number(4, f64::NEG_INFINITY)?;
        let is_centred = n.flag("center_point_box", false);
        let (&[images, count, 4], &[_, classes, _]) = (boxes.shape(), scores.shape()) else {
            return n.fail("`NonMaxSuppression` needs boxes and scores of 3 dimensions");
        };
        let float = |c: &Constant, i: i64| c.float(i as usize).unwrap_or(f64::NAN);
        let mut chosen: Vec<i64> = Vec::new();
        for image in 0..images {
            let corners = |b: i64| {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| float(&boxes, (image * count + b) * 4 + k));
                match is_centred {
                    true => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
                    false => [a.min(c), b.min(d), a.max(c), b.max(d)],
                }
            };
            for class in 0..classes {
                let score = |b: i64| float(&scores, (image * classes + class) * count + b);
                let mut order: Vec<i64> = (0..count).filter(|&b| score(b) > least).collect();
                // Equal scores stay in order.
                order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
                let mut kept: Vec<i64> = Vec::new();
                for b in order {
                    if kept.len() >= most {
                        break;
                    }
                    if kept.iter().all(|&k| share(corners(k), corners(b)) <= overlap) {
                        kept.push(b);
                        chosen.extend([image, class, b]);
                    }
                }
            }
        }
        let rows = chosen.len() as i64 / 3;
        let chosen = Constant::integers(&chosen);
        match Constant::new(chosen.dtype(), &[rows, 3], chosen.data().to_vec()) {
            Some(chosen) => Ok(n.cx.function.add_constant(chosen)),
            None => n.fail("`NonMaxSuppression` has no result"),
        }
    }),
    one("NonZero", 9, |n| {
        let constant = n.known_constant(0)?;
        let x = n.cx.function.add_constant(constant);
        n.call("nonzero", vec![("x", Arg::Value(x))])
    }),
    many("Unique", 11, |n| {
        let constant = n.known_constant(0)?;
        let x = n.cx.function.add_constant(constant);
        let (sorted, axis) = (n.flag("sorted", true), n.opt_int("axis"));
        let yes = |n: &mut Node<'_, '_>, v: bool| Arg::Prim(n.arena().bool(v));
        let mut args = vec![("x", Arg::Value(x)), ("sorted", yes(n, sorted))];
        for name in ["return_index", "return_inverse", "return_counts"] {
            args.push((name, yes(n, true)));
        }
        if let Some(axis) = axis {
            let axis = n.index(axis);
            args.push(("axis", Arg::Prim(axis)));
        }
        let all = n.call("unique", args)?;
        (0..4).map(|i| Ok(Operand::Value(n.item(all, i)?))).collect()
    }),
];

/// The intersection of two boxes divided by their union.
fn share(a: [f64; 4], b: [f64; 4]) -> f64 {
    let area = |[top, left, bottom, right]: [f64; 4]| (bottom - top).max(0.0) * (right - left).max(0.0);
    let common = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    let union = area(a) + area(b) - common;
    if union > 0.0 { common / union } else { 0.0 }
}
