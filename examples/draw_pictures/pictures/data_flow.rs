//! The way from a tensor program to a tuned kernel: the modules of the source, and what flows between them.

use super::canvas::{Anchor, Canvas, Font, Point, Rect};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 624.0;

/// The rows of boxes: the upper edges of those before the search, and of those on the way down and up its loop.
const BEFORE: f64 = 88.0;
const DOWN: f64 = 214.0;
const UP: f64 = 362.0;

/// The left edge of a column of boxes.
const fn column(i: usize) -> f64 {
    30.0 + 210.0 * i as f64
}

/// The place of a box of usual size.
const fn cell(i: usize, y: f64) -> Rect {
    Rect::new(column(i), y, 170.0, 66.0)
}

/// The place of a command.
const fn strip(y: f64) -> Rect {
    Rect::new(column(2), y, column(3) + 170.0 - column(2), 32.0)
}

/// The place of a back end. To the right, there is room for the arrow that leads to it.
const fn back_end(y: f64) -> Rect {
    Rect::new(column(3), y, 136.0, 46.0)
}

/// The kind of a box, which determines how it is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// A file that a user writes.
    File,
    /// A module that transforms or measures programs.
    Stage,
    /// A module that decides.
    Decision,
    /// The database.
    Store,
    /// A command that presents results.
    Command,
}

/// A box of the picture.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    area: Rect,
    pub(crate) name: &'static str,
    remarks: &'static [&'static str],
}

const fn node(kind: Kind, area: Rect, name: &'static str, remarks: &'static [&'static str]) -> Node {
    Node { kind, area, name, remarks }
}

/// The boxes; arrows name them.
pub(crate) const NODES: [Node; 18] = [
    node(Kind::File, cell(0, BEFORE), "matmul.tir", &["tensor program", "in TVMScript"]),
    node(Kind::Stage, cell(1, BEFORE), "script", &["parses the text,", "reports all mistakes"]),
    node(Kind::Stage, cell(2, BEFORE), "ir", &["typed program,", "verified"]),
    node(Kind::Decision, cell(3, BEFORE), "space", &["by rules, or by your", "schedule function"]),
    node(Kind::File, Rect::new(column(3), 18.0, 170.0, 34.0), "my_space.py", &[]),
    node(Kind::Decision, cell(0, DOWN), "search", &["evolves decisions,", "proposes traces"]),
    node(Kind::Stage, cell(1, DOWN), "schedule", &["replays each trace", "on the program"]),
    node(Kind::Stage, cell(2, DOWN), "lower", &["blocks to loop IR,", "accesses in bounds"]),
    node(Kind::Stage, cell(3, DOWN), "codegen::opt", &["passes over", "the loop IR"]),
    node(Kind::Stage, back_end(346.0), "codegen::clif", &["Cranelift"]),
    node(Kind::Stage, back_end(400.0), "codegen::wide", &["AVX2, AVX-512"]),
    node(Kind::Stage, cell(2, UP), "check", &["compares results with", "those as written"]),
    node(Kind::Stage, cell(1, UP), "measure", &["races each kernel", "against the best"]),
    node(Kind::Decision, cell(0, UP), "search::model", &["cost model: learns", "from each time"]),
    node(Kind::Store, Rect::new(column(1), 500.0, 170.0, 84.0), "database", &["traces and times", "in JSON lines"]),
    node(Kind::Command, strip(482.0), "tvmr apply-best", &["the program as scheduled"]),
    node(Kind::Command, strip(526.0), "tvmr print-trace", &["its schedule, in Python"]),
    node(Kind::Command, strip(570.0), "tvmr bench --best", &["its time and share of peak"]),
];

/// A side of a box, and how far along it from its middle.
#[derive(Clone, Copy, Debug)]
enum Port {
    Left,
    Right,
    Top,
    Bottom(f64),
}

/// An arrow between two boxes. It leaves and enters them at right angles; `bends` are its coordinates in between, x and
/// y by turns.
struct Arrow {
    from: (&'static str, Port),
    to: (&'static str, Port),
    bends: &'static [f64],
    /// Is it a way that only some runs take?
    is_optional: bool,
}

const fn arrow(from: (&'static str, Port), to: (&'static str, Port), bends: &'static [f64]) -> Arrow {
    Arrow { from, to, bends, is_optional: false }
}

const fn optional(arrow: Arrow) -> Arrow {
    Arrow { is_optional: true, ..arrow }
}

const ARROWS: [Arrow; 20] = [
    arrow(("matmul.tir", Port::Right), ("script", Port::Left), &[]),
    arrow(("script", Port::Right), ("ir", Port::Left), &[]),
    arrow(("ir", Port::Right), ("space", Port::Left), &[]),
    optional(arrow(("my_space.py", Port::Bottom(0.0)), ("space", Port::Top), &[])),
    arrow(("space", Port::Bottom(0.0)), ("search", Port::Top), &[172.0]),
    arrow(("search", Port::Right), ("schedule", Port::Left), &[]),
    arrow(("schedule", Port::Right), ("lower", Port::Left), &[]),
    arrow(("lower", Port::Right), ("codegen::opt", Port::Left), &[]),
    arrow(("codegen::opt", Port::Bottom(71.0)), ("codegen::clif", Port::Right), &[]),
    arrow(("codegen::opt", Port::Bottom(71.0)), ("codegen::wide", Port::Right), &[]),
    arrow(("codegen::clif", Port::Left), ("check", Port::Right), &[638.0]),
    arrow(("codegen::wide", Port::Left), ("check", Port::Right), &[638.0]),
    arrow(("check", Port::Left), ("measure", Port::Right), &[]),
    arrow(("measure", Port::Left), ("search::model", Port::Right), &[]),
    arrow(("search::model", Port::Top), ("search", Port::Bottom(0.0)), &[]),
    arrow(("measure", Port::Bottom(0.0)), ("database", Port::Top), &[]),
    optional(arrow(("database", Port::Left), ("search::model", Port::Bottom(0.0)), &[])),
    arrow(("database", Port::Right), ("tvmr apply-best", Port::Left), &[428.0]),
    arrow(("database", Port::Right), ("tvmr print-trace", Port::Left), &[]),
    arrow(("database", Port::Right), ("tvmr bench --best", Port::Left), &[428.0]),
];

const TITLE: &str = "From a tensor program to a tuned kernel";

/// Further texts: where and how they are placed.
const TEXTS: [(Point, Anchor, Font, &str); 7] = [
    ((30.0, 41.0), Anchor::Start, Font::Title, TITLE),
    ((30.0, 63.0), Anchor::Start, Font::Body, "Boxes are modules of the source; sheets are files and commands."),
    ((430.0, 313.0), Anchor::Middle, Font::Title, "The search loop"),
    ((430.0, 334.0), Anchor::Middle, Font::Body, "until trials, time or programs run out"),
    ((125.0, 325.0), Anchor::Start, Font::Body, "predictions"),
    ((335.0, 479.0), Anchor::Start, Font::Body, "every outcome"),
    ((128.0, 560.0), Anchor::Start, Font::Body, "earlier runs"),
];

const DESCRIPTION: &str = "\
    A tensor program in TVMScript is parsed by script into the typed program of ir. From it, rules or a schedule \
    function of the user make the search space. The search loop: search proposes traces with decisions; schedule \
    replays each on the program; lower makes loop IR of it; codegen optimises the loop IR and emits machine code, by \
    Cranelift and, for wide vectors, by an encoder of its own; check compares the results with those of the program \
    as written; measure times the kernel; the cost model learns from the time and predicts those of further \
    candidates. Every outcome goes to the database, from which later runs learn, and which the commands apply-best, \
    print-trace and bench read.";

/// The picture as SVG.
pub(super) fn draw() -> Result<String, String> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.rect(Rect::new(14.0, 192.0, WIDTH - 28.0, 270.0), 10.0, "panel");
    for arrow in &ARROWS {
        let class = if arrow.is_optional { "flow dashed" } else { "flow" };
        canvas.arrow(&route(arrow)?, class);
    }
    for node in &NODES {
        let Node { area, name, remarks, .. } = *node;
        match node.kind {
            Kind::File => {
                canvas.sheet(area, "paper");
                canvas.label(area, (Font::Code, name), remarks);
            }
            Kind::Stage | Kind::Decision => {
                canvas.rect(area, 6.0, if node.kind == Kind::Stage { "stage" } else { "learn" });
                canvas.label(area, (Font::Name, name), remarks);
            }
            Kind::Store => {
                let front = canvas.drum(area, "store");
                canvas.label(front, (Font::Name, name), remarks);
            }
            Kind::Command => {
                canvas.sheet(area, "paper");
                let baseline = area.centre().1 + 4.5;
                canvas.text((area.x + 12.0, baseline), Anchor::Start, Font::Code, name);
                canvas.text((area.x + 168.0, baseline), Anchor::Start, Font::Body, &remarks.concat());
            }
        }
    }
    for (at, anchor, font, text) in TEXTS {
        canvas.text(at, anchor, font, text);
    }
    canvas.finish(TITLE, DESCRIPTION)
}

/// The points of an arrow.
fn route(arrow: &Arrow) -> Result<Vec<Point>, String> {
    let (from, to) = (end_of(arrow.from)?, end_of(arrow.to)?);
    let mut points = vec![from];
    let mut is_horizontal = matches!(arrow.from.1, Port::Left | Port::Right);
    let mut at = from;
    for &bend in arrow.bends {
        at = if is_horizontal { (bend, at.1) } else { (at.0, bend) };
        points.push(at);
        is_horizontal = !is_horizontal;
    }
    let enters_horizontally = matches!(arrow.to.1, Port::Left | Port::Right);
    if enters_horizontally != is_horizontal || at.0 != to.0 && at.1 != to.1 {
        points.push(if is_horizontal { (to.0, at.1) } else { (at.0, to.1) });
    }
    points.push(to);
    Ok(points)
}

/// The point where an arrow meets a box.
fn end_of((name, port): (&str, Port)) -> Result<Point, String> {
    let node = NODES.iter().find(|n| n.name == name).ok_or_else(|| format!("no box is called `{name}`"))?;
    let (x, y) = node.area.centre();
    Ok(match port {
        Port::Left => (node.area.x, y),
        Port::Right => (node.area.right(), y),
        Port::Top => (x, node.area.y),
        Port::Bottom(offset) => (x + offset, node.area.bottom()),
    })
}
