//! The outer loops of a stage become those of the stage that reads it.
//!
//! An instruction can move a consumer into a loop of its producer. A schedule of tensor expressions says this from the other side: the
//! consumer has the outer loops, and the producer is computed in them.
//!
//! ```text
//! P: split i by 4 (io, ii), split j by 8 (jo, ji), reorder io, jo, ii, ji      C[i, j] = P[i, j], moved into jo
//! // becomes
//! C: split i by 4 (io, ii), split j by 8 (jo, ji), reorder io, jo, ii, ji      P[i, j], computed at jo of C
//! ```
//!
//! In an iteration of these loops the producer computes a tile, so that its axes stand for those of the tile: `ii` is `i` then. An axis
//! that was split into more parts has those inside of the loop left. If `i` is (i0, i1, i2) and `i0` is handed over, the consumer's
//! axis is split into `i0` and the rest, and the producer's axis into `i1` and `i2`.

use super::Mistake;
use super::attach::Attach;
use super::axis::{AxisId, Size};
use super::relation::Relation;
use super::stage::{Stage, StageId, Stages};
use crate::diagnostic::Span;
use hashbrown::HashMap;

/// What axes stand for after the outer ones were handed over.
pub(super) struct HandedOver {
    /// The consumer's axes that take the places of axes of the producer.
    pub(super) outer: HashMap<AxisId, AxisId>,
    /// The producer's axes of the tile that take the places of their only parts.
    pub(super) inner: HashMap<AxisId, AxisId>,
    /// The innermost parts of the consumer's axes that are split.
    pub(super) rest: HashMap<AxisId, AxisId>,
}

/// Where the parts of an axis stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// All at or above the loop.
    Outer,
    /// All inside of it.
    Inner,
    /// Some here, some there.
    Both,
}

/// The parts of an axis that stands on both sides.
struct Parts {
    /// Those outside, outermost first.
    outer: Vec<AxisId>,
    /// Those inside, outermost first.
    inner: Vec<AxisId>,
}

impl Stages {
    /// Hands the axes of `producer` down to `last` over to `consumer`, at the last of which `producer` is computed then. `matching` has
    /// pairs of their axes as defined that are one index: the consumer reads the producer's element there.
    ///
    /// # Errors
    /// The loops cannot be said as the consumer's. The stages may have been changed in part then.
    pub(super) fn hand_over(
        &mut self,
        producer: StageId,
        last: AxisId,
        consumer: StageId,
        matching: &HashMap<AxisId, AxisId>,
        at: Span,
    ) -> Result<HandedOver, Mistake> {
        let place = self.leaf(producer, last)?;
        let before = self.stage(producer).clone();
        for stage in [producer, consumer] {
            if self.stage(stage).attach.0 != Attach::Root {
                let name = &self.stage(stage).name;
                return Err(Mistake::new(format!("`{name}` is computed in a loop of another stage")));
            }
        }
        self.forget_nest(consumer)?;
        if let Some(&reduced) = before.leaves[..=place].iter().find(|&&a| self.axis(a).is_reduced()) {
            return Err(Mistake::new(format!("the loop is inside of the reduced axis `{}`", self.axis(reduced).name)));
        }
        let sides = self.sides(&before, place)?;
        let mut done = HandedOver { outer: HashMap::new(), inner: HashMap::new(), rest: HashMap::new() };
        for &axis in before.axes.iter().filter(|a| sides.get(*a).is_some_and(|&s| s != Side::Inner)) {
            let Some(&of_consumer) = matching.get(&axis) else {
                let (c, p, axis) = (&self.stage(consumer).name, &before.name, &self.axis(axis).name);
                let message =
                    format!("`{c}` does not read each element of `{p}` at its own index in the dimension of `{axis}`");
                return Err(Mistake::new(message));
            };
            done.outer.insert(axis, of_consumer);
        }
        let s = self.stage_mut(producer);
        (s.leaves, s.relations) = (s.axes.clone(), Vec::new());
        for (relation, at) in &before.relations {
            self.hand_over_relation(producer, consumer, &before, &sides, (relation, *at), &mut done)?;
        }
        // An axis on both sides stands for the tile's now.
        done.outer.retain(|axis, _| sides.get(axis) == Some(&Side::Outer));
        self.order_both(producer, consumer, &before, place, &done, at)?;
        self.move_what_is_said(producer, consumer, &done)?;
        let Some(&last) = done.outer.get(&last) else { return Err(Mistake::new("the loop is no axis")) };
        self.attach(producer, Attach::At(consumer, last), at)?;
        Ok(done)
    }

    /// The sides of all axes of a stage.
    fn sides(&self, stage: &Stage, place: usize) -> Result<HashMap<AxisId, Side>, Mistake> {
        let side = |i| if i <= place { Side::Outer } else { Side::Inner };
        let mut sides: HashMap<AxisId, Side> =
            stage.leaves.iter().enumerate().map(|(i, &leaf)| (leaf, side(i))).collect();
        for (relation, _) in stage.relations.iter().rev() {
            match relation {
                Relation::Split { parent, parts, .. } => {
                    let mut all = parts.iter().filter_map(|p| sides.get(p).copied());
                    let first = all.next().unwrap_or(Side::Inner);
                    let side = if all.all(|s| s == first) { first } else { Side::Both };
                    sides.insert(*parent, side);
                }
                Relation::Fuse { parts, fused } => {
                    let side = sides.get(fused).copied().unwrap_or(Side::Inner);
                    if side == Side::Both {
                        let name = &self.axis(*fused).name;
                        return Err(Mistake::new(format!("the loop separates parts of the fused axis `{name}`")));
                    }
                    sides.extend(parts.iter().map(|&p| (p, side)));
                }
                Relation::Reorder(_) => {}
            }
        }
        Ok(sides)
    }

    /// The parts of an axis that stands on both sides: the outer ones must be those outside.
    fn parts_of(&self, stage: &Stage, sides: &HashMap<AxisId, Side>, axis: AxisId) -> Result<Parts, Mistake> {
        let split = stage.relations.iter().find_map(|(r, _)| match r {
            Relation::Split { parent, parts, .. } if *parent == axis => Some(parts),
            _ => None,
        });
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for (i, part) in split.into_iter().flatten().enumerate() {
            match sides.get(part) {
                Some(Side::Outer) if inner.is_empty() => outer.push(*part),
                Some(Side::Both) if inner.is_empty() => {
                    let of_part = self.parts_of(stage, sides, *part)?;
                    // Its parts may have more iterations than it only where nothing is further out: their distances stay then.
                    if i > 0 && self.product(of_part.outer.iter().chain(&of_part.inner)) != self.axis(*part).extent {
                        let name = &self.axis(*part).name;
                        return Err(Mistake::new(format!("the axis `{name}` was split with a remainder")));
                    }
                    outer.extend(of_part.outer);
                    inner = of_part.inner;
                }
                Some(Side::Inner) => inner.push(*part),
                _ => {
                    let message = format!("inner parts of the axis `{}` are outside of the loop", self.axis(axis).name);
                    return Err(Mistake::new(message));
                }
            }
        }
        Ok(Parts { outer, inner })
    }

    fn product<'a>(&self, axes: impl IntoIterator<Item = &'a AxisId>) -> Option<i64> {
        axes.into_iter().try_fold(1i64, |product, &a| product.checked_mul(self.axis(a).extent?))
    }

    /// Carries out one relation of the producer on the stages that have its axes now.
    fn hand_over_relation(
        &mut self,
        producer: StageId,
        consumer: StageId,
        before: &Stage,
        sides: &HashMap<AxisId, Side>,
        (relation, at): (&Relation, Span),
        done: &mut HandedOver,
    ) -> Result<(), Mistake> {
        match relation {
            Relation::Split { parent, parts, sizes } => match sides.get(parent) {
                Some(Side::Outer) => {
                    let made = self.split(consumer, image(done, *parent)?, sizes.clone(), at)?;
                    done.outer.extend(parts.iter().copied().zip(made));
                }
                // Only axes as defined: a part of such an axis is split with it.
                Some(Side::Both) if before.axes.contains(parent) => {
                    let of_axis = self.parts_of(before, sides, *parent)?;
                    self.split_on_both(producer, consumer, *parent, &of_axis, at, done)?;
                }
                Some(Side::Both) => {}
                _ => {
                    let tile = |a| done.inner.get(&a).copied().unwrap_or(a);
                    self.repeat(producer, &relation.map(&tile), at)?;
                }
            },
            Relation::Fuse { parts, fused } => match sides.get(fused) {
                Some(Side::Outer) => {
                    let mut axes = Vec::with_capacity(parts.len());
                    for &part in parts {
                        axes.push(image(done, part)?);
                    }
                    self.bring_together(consumer, &axes, at)?;
                    let made = self.fuse(consumer, &axes, at)?;
                    done.outer.insert(*fused, made);
                }
                _ => {
                    let tile = |a| done.inner.get(&a).copied().unwrap_or(a);
                    self.repeat(producer, &relation.map(&tile), at)?;
                }
            },
            // The order of both is made at the end.
            Relation::Reorder(_) => {}
        }
        Ok(())
    }

    /// Splits an axis that stands on both sides: the consumer's into the outer parts and the rest, the producer's into the inner ones.
    fn split_on_both(
        &mut self,
        producer: StageId,
        consumer: StageId,
        axis: AxisId,
        of_axis: &Parts,
        at: Span,
        done: &mut HandedOver,
    ) -> Result<(), Mistake> {
        let name = self.axis(axis).name.clone();
        let unknown = || Mistake::new(format!("a part of the axis `{name}` has an extent that is not constant"));
        let whole = self.axis(axis).extent.ok_or_else(unknown)?;
        let rest = self.product(&of_axis.inner).ok_or_else(unknown)?;
        let mut extents = Vec::with_capacity(of_axis.outer.len() + 1);
        for &part in &of_axis.outer {
            extents.push(self.axis(part).extent.ok_or_else(unknown)?);
        }
        extents.push(rest);
        // One part follows from the others: the outermost, or the rest.
        let follows = |open: usize| {
            let others = extents.iter().enumerate().filter(|(i, _)| *i != open);
            let product = others.map(|(_, e)| *e).try_fold(1i64, i64::checked_mul).filter(|p| *p > 0);
            product.is_some_and(|p| whole / p + i64::from(whole % p != 0) == extents[open])
        };
        let Some(open) = [0, extents.len() - 1].into_iter().find(|&open| follows(open)) else {
            return Err(Mistake::new(format!("the parts of the axis `{name}` have more iterations than are needed")));
        };
        let sizes = extents.iter().enumerate().map(|(i, &e)| (i != open).then_some(Size::from(e))).collect();
        let target = image(done, axis)?;
        let made = self.split(consumer, target, sizes, at)?;
        if let Some(&innermost) = made.last() {
            done.rest.insert(target, innermost);
        }
        done.outer.extend(of_axis.outer.iter().copied().zip(made));
        match of_axis.inner[..] {
            [one] => drop(done.inner.insert(one, axis)),
            _ => {
                let size = |(i, a): (usize, &AxisId)| self.axis(*a).extent.filter(|_| i > 0).map(Size::from);
                let sizes = of_axis.inner.iter().enumerate().map(size).collect();
                let relation = Relation::Split { parent: axis, parts: of_axis.inner.clone(), sizes };
                self.repeat(producer, &relation, at)?;
            }
        }
        Ok(())
    }

    /// Puts the axes of both stages into the order that the producer's had.
    fn order_both(
        &mut self,
        producer: StageId,
        consumer: StageId,
        before: &Stage,
        place: usize,
        done: &HandedOver,
        at: Span,
    ) -> Result<(), Mistake> {
        let (outer, inner) = before.leaves.split_at(place + 1);
        let mut wanted = Vec::new();
        for &leaf in outer {
            wanted.push(image(done, leaf)?);
        }
        let c = self.stage(consumer);
        let own = c.axes.iter().map(|a| done.rest.get(a).copied().unwrap_or(*a)).filter(|a| c.leaves.contains(a));
        let own: Vec<AxisId> = own.filter(|a| !wanted.contains(a)).collect();
        wanted.extend(own);
        self.arrange(consumer, &wanted, at)?;
        // A dimension that is handed over as a whole has one index in the tile.
        let mut wanted: Vec<AxisId> = before.axes.iter().copied().filter(|a| done.outer.contains_key(a)).collect();
        wanted.extend(inner.iter().map(|a| done.inner.get(a).copied().unwrap_or(*a)));
        self.arrange(producer, &wanted, at)
    }

    /// What was said of the producer's axes is said of those that take their places.
    fn move_what_is_said(&mut self, producer: StageId, consumer: StageId, done: &HandedOver) -> Result<(), Mistake> {
        for (note, at) in std::mem::take(&mut self.stage_mut(producer).notes) {
            let (stage, axis) = match note.axis() {
                Some(axis) => match done.outer.get(&axis) {
                    Some(&of_consumer) => (consumer, Some(of_consumer)),
                    None => (producer, done.inner.get(&axis).copied()),
                },
                None => (producer, None),
            };
            let note = match axis {
                Some(axis) => note.of_axis(axis),
                None => note,
            };
            self.stage_mut(stage).notes.push((note, at));
        }
        for id in self.ids() {
            let (Attach::At(parent, axis), at) = self.stage(id).attach else { continue };
            if parent != producer {
                continue;
            }
            if let Some(&of_consumer) = done.outer.get(&axis) {
                self.attach(id, Attach::At(consumer, of_consumer), at)?;
            } else if let Some(&of_tile) = done.inner.get(&axis) {
                self.attach(id, Attach::At(producer, of_tile), at)?;
            }
        }
        Ok(())
    }
}

/// The consumer's axis that takes the place of one of the producer's.
fn image(done: &HandedOver, axis: AxisId) -> Result<AxisId, Mistake> {
    done.outer.get(&axis).copied().ok_or_else(|| Mistake::new("the loop is no axis of the stage that reads it"))
}
