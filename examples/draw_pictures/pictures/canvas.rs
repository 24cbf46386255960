//! A canvas for boxes, lines and texts, written as SVG.
//!
//! The reader's browser chooses the font, so the width of a text is not known here. It is estimated from above, and
//! [`Canvas::finish`] refuses a picture in which texts overlap or leave their place by that estimate.

use std::fmt::Write;

/// Colours: a selector, and what it declares for light and for dark backgrounds.
const COLOURS: [(&str, &str, &str); 15] = [
    (".page", "fill:#ffffff;stroke:#d0d7de", "fill:#0d1117;stroke:#30363d"),
    (".panel", "fill:#f6f8fa;stroke:#d0d7de", "fill:#151b23;stroke:#30363d"),
    (".paper", "fill:#ffffff;stroke:#8c959f", "fill:#0d1117;stroke:#7d8590"),
    (".stage", "fill:#ddf4ff;stroke:#218bff", "fill:#10243e;stroke:#4493f8"),
    (".learn", "fill:#fff8c5;stroke:#bf8700", "fill:#2b2410;stroke:#d29922"),
    (".store", "fill:#dafbe1;stroke:#2da44e", "fill:#10281a;stroke:#3fb950"),
    (".flow", "stroke:#6e7781", "stroke:#9198a1"),
    (".tip", "fill:#6e7781", "fill:#9198a1"),
    (".grid", "stroke:#d8dee4", "stroke:#2a313c"),
    (".bound", "stroke:#bc4c00", "stroke:#f0883e"),
    (".best", "stroke:#0969da", "stroke:#4493f8"),
    (".dot", "fill:#8c959f", "fill:#7d8590"),
    (".record", "fill:#0969da", "fill:#4493f8"),
    ("text", "fill:#1f2328", "fill:#f0f6fc"),
    (".body", "fill:#4d555e", "fill:#b7c0ca"),
];

/// Declarations for every background.
const SHAPES: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}\n\
    .code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace}\n\
    .strong{font-weight:600}\n.flow,.grid,.bound,.best{fill:none}\n.flow,.bound,.best{stroke-width:1.5}\n\
    .dashed{stroke-dasharray:5 4}\n";

/// A point, from the upper left corner of the picture.
pub(super) type Point = (f64, f64);

/// A rectangle with sides parallel to the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) const fn new(x: f64, y: f64, width: f64, height: f64) -> Rect {
        Rect { x, y, width, height }
    }

    pub(super) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.y + self.height
    }

    pub(super) fn centre(self) -> Point {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    fn contains(self, other: Rect) -> bool {
        self.x <= other.x && self.y <= other.y && other.right() <= self.right() && other.bottom() <= self.bottom()
    }

    fn overlaps(self, other: Rect) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }
}

/// The point of a text that is placed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The look of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Font {
    /// The headline of a picture, or of a part.
    Title,
    /// The name of a box.
    Name,
    /// The name of a file or command.
    Code,
    /// Everything else.
    Body,
}

impl Font {
    fn size(self) -> f64 {
        match self {
            Font::Title => 16.0,
            Font::Name | Font::Code => 13.5,
            Font::Body => 12.5,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Font::Title | Font::Name => " class=\"strong\"",
            Font::Code => " class=\"code strong\"",
            Font::Body => " class=\"body\"",
        }
    }

    /// An upper bound of the width of a text, for the usual fonts of browsers.
    fn width(self, text: &str) -> f64 {
        let em = |c: char| match (self, c) {
            (Font::Code, _) => 0.62,
            (_, 'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ') => 0.34,
            (_, 'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/') => 0.43,
            (_, 'm' | 'w' | 'M' | 'W' | '→') => 0.95,
            (_, 'A'..='Z') => 0.72,
            _ => 0.62,
        };
        let bold = if matches!(self, Font::Title | Font::Name) { 1.06 } else { 1.0 };
        text.chars().map(em).sum::<f64>() * self.size() * bold
    }
}

/// A picture that is being drawn.
pub(super) struct Canvas {
    page: Rect,
    body: String,
    texts: Vec<(Rect, String)>,
    problems: Vec<String>,
}

impl Canvas {
    /// An empty picture.
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        let mut canvas = Canvas {
            page: Rect::new(0.0, 0.0, width, height),
            body: String::new(),
            texts: Vec::new(),
            problems: Vec::new(),
        };
        canvas.rect(Rect::new(0.5, 0.5, width - 1.0, height - 1.0), 8.0, "page");
        canvas
    }

    /// A rectangle with round corners.
    pub(super) fn rect(&mut self, area: Rect, radius: f64, class: &str) {
        let [x, y, width, height, radius] = [area.x, area.y, area.width, area.height, radius].map(number);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
        ));
    }

    /// A sheet of paper, its upper right corner folded.
    pub(super) fn sheet(&mut self, area: Rect, class: &str) {
        const FOLD: f64 = 11.0;
        let [left, top, right, bottom] = [area.x, area.y, area.right(), area.bottom()].map(number);
        let [x, y] = [area.right() - FOLD, area.y + FOLD].map(number);
        self.add(format_args!(
            "<path class=\"{class}\" d=\"M{left} {top}H{x}L{right} {y}V{bottom}H{left}ZM{x} {top}V{y}H{right}\"/>"
        ));
    }

    /// A drum, the usual sign of a database. Returns its area below the lid.
    pub(super) fn drum(&mut self, area: Rect, class: &str) -> Rect {
        const RY: f64 = 9.0;
        let [left, right, rx] = [area.x, area.right(), area.width / 2.0].map(number);
        let [top, bottom, ry] = [area.y + RY, area.bottom() - RY, RY].map(number);
        let lid = format_args!("A{rx} {ry} 0 0 1 {right} {top}");
        self.add(format_args!(
            "<path class=\"{class}\" d=\"M{left} {top}{lid}V{bottom}A{rx} {ry} 0 0 1 {left} {bottom}Z\"/>"
        ));
        self.add(format_args!("<path class=\"{class}\" d=\"M{left} {top}{lid}A{rx} {ry} 0 0 1 {left} {top}\"/>"));
        Rect::new(area.x, area.y + RY, area.width, area.height - RY)
    }

    /// A line through points; its bends are rounded by at most `radius`.
    pub(super) fn line(&mut self, points: &[Point], radius: f64, class: &str) {
        let mut path = String::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            let bend = if radius > 0.0 { i.checked_sub(1).zip(points.get(i + 1)) } else { None };
            let op = if i == 0 { 'M' } else { 'L' };
            match bend {
                None => write!(path, "{op}{} {}", number(x), number(y)),
                Some((before, &after)) => {
                    let (a, b) = (towards((x, y), points[before], radius), towards((x, y), after, radius));
                    let [ax, ay, bx, by] = [a.0, a.1, b.0, b.1].map(number);
                    write!(path, "L{ax} {ay}Q{} {} {bx} {by}", number(x), number(y))
                }
            }
            .expect("a string takes all");
        }
        self.add(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// A line with round bends that ends in an arrowhead.
    pub(super) fn arrow(&mut self, points: &[Point], class: &str) {
        const LENGTH: f64 = 9.0;
        const HALF: f64 = 4.5;
        let [.., before, tip] = *points else { return };
        let base = towards(tip, before, LENGTH);
        let mut shaft = points.to_vec();
        if let Some(end) = shaft.last_mut() {
            *end = towards(tip, before, LENGTH - 1.0);
        }
        self.line(&shaft, 8.0, class);
        // A unit vector along the line, and across it.
        let (ux, uy) = ((tip.0 - base.0) / LENGTH, (tip.1 - base.1) / LENGTH);
        let corners = [(base.0 - uy * HALF, base.1 + ux * HALF), tip, (base.0 + uy * HALF, base.1 - ux * HALF)];
        let [a, b, c] = corners.map(|(x, y)| format!("{} {}", number(x), number(y)));
        self.add(format_args!("<path class=\"tip\" d=\"M{a}L{b}L{c}Z\"/>"));
    }

    /// A dot.
    pub(super) fn dot(&mut self, (x, y): Point, radius: f64, class: &str) {
        let [x, y, r] = [x, y, radius].map(number);
        self.add(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>"));
    }

    /// A cross.
    pub(super) fn cross(&mut self, (x, y): Point) {
        const HALF: f64 = 3.5;
        let [left, right, top, bottom] = [x - HALF, x + HALF, y - HALF, y + HALF].map(number);
        self.add(format_args!(
            "<path class=\"bound\" d=\"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}\"/>"
        ));
    }

    /// A line of text; `at` is on its baseline.
    pub(super) fn text(&mut self, at: Point, anchor: Anchor, font: Font, text: &str) {
        let width = font.width(text);
        let (left, attribute) = match anchor {
            Anchor::Start => (at.0, ""),
            Anchor::Middle => (at.0 - width / 2.0, " text-anchor=\"middle\""),
            Anchor::End => (at.0 - width, " text-anchor=\"end\""),
        };
        let size = font.size();
        let area = Rect::new(left, at.1 - size * 0.8, width, size * 1.05);
        if !self.page.contains(area) {
            self.problems.push(format!("`{text}` leaves the picture"));
        }
        if let Some((_, other)) = self.texts.iter().find(|(other, _)| other.overlaps(area)) {
            self.problems.push(format!("`{text}` overlaps `{other}`"));
        }
        self.texts.push((area, text.to_owned()));
        let (x, y, class) = (number(at.0), number(at.1), font.class());
        let text = escaped(text);
        self.add(format_args!("<text{class} x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{attribute}>{text}</text>"));
    }

    /// Lines of text in the middle of an area: a name, and remarks below.
    pub(super) fn label(&mut self, area: Rect, name: (Font, &str), remarks: &[&str]) {
        const LEADING: f64 = 16.0;
        const MARGIN: f64 = 6.0;
        // Below the name.
        const GAP: f64 = 2.0;
        let lines = std::iter::once(name).chain(remarks.iter().map(|&text| (Font::Body, text)));
        let (x, middle) = area.centre();
        let gap = if remarks.is_empty() { 0.0 } else { GAP };
        let first = middle - (LEADING * remarks.len() as f64 + gap) / 2.0 + 4.5;
        for (i, (font, text)) in lines.enumerate() {
            if font.width(text) > area.width - 2.0 * MARGIN {
                self.problems.push(format!("`{text}` is wider than its box"));
            }
            let y = first + LEADING * i as f64 + if i > 0 { gap } else { 0.0 };
            self.text((x, y), Anchor::Middle, font, text);
        }
    }

    /// The picture as SVG; `title` and `description` are for readers who do not see it.
    pub(super) fn finish(self, title: &str, description: &str) -> Result<String, String> {
        if !self.problems.is_empty() {
            return Err(format!("{title}: {}", self.problems.join("; ")));
        }
        let (width, height) = (number(self.page.width), number(self.page.height));
        let rules = |pick: fn(&(&str, &'static str, &'static str)) -> &'static str| -> String {
            COLOURS.iter().map(|row| format!("{}{{{}}}\n", row.0, pick(row))).collect()
        };
        let (light, dark) = (rules(|row| row.1), rules(|row| row.2));
        let (title, description, body) = (escaped(title), escaped(description), self.body);
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title\" \
             aria-describedby=\"desc\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>\n\
             <style>\n{SHAPES}{light}@media (prefers-color-scheme:dark){{\n{dark}}}\n</style>\n{body}</svg>\n"
        ))
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("a string takes all");
    }
}

/// The point on the way from one point to another after `distance`, but not beyond the middle of the way.
fn towards(from: Point, to: Point, distance: f64) -> Point {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    let share = if length > 0.0 { (distance / length).min(0.5) } else { 0.0 };
    (from.0 + dx * share, from.1 + dy * share)
}

/// A coordinate with at most one decimal.
fn number(x: f64) -> String {
    let text = format!("{x:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
