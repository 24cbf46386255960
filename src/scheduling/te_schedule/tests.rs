//! Tests of the model of stages.

use super::{Attach, Axis, Cache, Definition, Size, StageId, Stages};
use crate::diagnostic::Span;
use crate::ir::IterKind;

const AT: Span = Span { start: 0, end: 0 };

fn axis(name: &str, kind: IterKind, extent: i64) -> Axis {
    Axis { name: name.to_owned(), kind, extent: Some(extent), var: None }
}

/// `C[i, j]` sums `A` over `k`.
fn sum() -> (Stages, StageId, StageId) {
    let mut stages = Stages::new();
    let a = stages.add("A", Definition::Input(0), vec![axis("ax0", IterKind::Spatial, 50)], Vec::new());
    let axes = vec![axis("i", IterKind::Spatial, 50), axis("j", IterKind::Spatial, 6), axis("k", IterKind::Reduce, 20)];
    let c = stages.add("C", Definition::Unplaced, axes, vec![a]);
    stages.set_output(c);
    (stages, a, c)
}

#[test]
fn axes_follow_from_calls() {
    let (mut stages, _, c) = sum();
    let [i, j, k] = stages.stage(c).axes[..] else { panic!("three axes") };
    let size = |n: i64| Some(Size::from(n));
    let inner = stages.split(c, i, vec![None, size(16)], AT).unwrap();
    let outer = stages.split(c, k, vec![size(3), None], AT).unwrap();
    let extents = |stages: &Stages| stages.stage(c).leaves.iter().map(|&a| stages.axis(a).extent).collect::<Vec<_>>();
    // Both divide with a rest.
    assert_eq!(extents(&stages), [4, 16, 6, 3, 7].map(Some));
    assert!(stages.split(c, i, vec![None, size(2)], AT).unwrap_err().message.contains("was split"));
    assert!(stages.split(c, j, vec![None, size(0)], AT).is_err());
    assert!(stages.split(c, j, vec![None, None], AT).is_err());

    stages.reorder(c, &[outer[0], inner[1]], AT).unwrap();
    assert_eq!(extents(&stages), [4, 3, 6, 16, 7].map(Some));
    assert!(stages.fuse(c, &[inner[0], inner[1]], AT).unwrap_err().help.contains("reorder"));
    assert!(stages.fuse(c, &[inner[0], outer[0]], AT).unwrap_err().message.contains("reduced"));
    stages.fuse(c, &[j, inner[1]], AT).unwrap();
    assert_eq!(extents(&stages), [4, 3, 96, 7].map(Some));
    assert_eq!(stages.owner(inner[1]), Some((c, None)));
    assert_eq!(stages.owner(j), Some((c, Some(1))));
}

#[test]
fn made_stages_stand_between_others() {
    let (mut stages, a, c) = sum();
    let copy = stages.cache_read(a, "local", &[c], AT).unwrap();
    let computing = stages.cache_write(c, "local", AT).unwrap();
    assert_eq!(stages.stage(c).reads, [computing]);
    assert_eq!(stages.stage(computing).reads, [copy]);
    assert_eq!((stages.stage(c).axes.len(), stages.stage(computing).axes.len()), (2, 3));
    let k = stages.stage(computing).axes[2];
    let partial = stages.rfactor(computing, k, -1, AT).unwrap();
    let names = |id| stages.stage(id).axes.iter().map(|&a| stages.axis(a).name.clone()).collect::<Vec<_>>();
    assert_eq!(names(partial), ["i", "j", "k"]);
    assert_eq!(names(computing), ["i", "j", "k.v"]);
    assert!(matches!(&stages.stage(partial).definition, Definition::Cache(Cache::Factor(f)) if f.dimension == 2));
    assert_eq!(stages.consumers_first(), [c, computing, partial, copy, a]);
    assert!(stages.cache_read(a, "local", &[c], AT).is_err(), "only the copy reads it now");
}

#[test]
fn results_and_inputs_stay_where_they_are() {
    let (mut stages, a, c) = sum();
    let i = stages.stage(c).axes[0];
    assert!(stages.attach(c, Attach::Inline, AT).is_err());
    assert!(stages.attach(a, Attach::At(c, i), AT).unwrap_err().help.contains("cache_read"));
    assert!(stages.attach(c, Attach::At(c, i), AT).is_err());
}
