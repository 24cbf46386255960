//! The pictures of the documentation, drawn as SVG.
//!
//! The example `draw_pictures` writes them; a test compares the committed files with what is drawn here. They adapt to
//! a light or dark background, need no fonts or scripts, and depend on this code and `tuning_run.json` alone.

mod canvas;
pub(crate) mod data_flow;
pub(crate) mod tuning_run;

/// The directory of the pictures in the repository.
pub(crate) const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures");

/// The file in [`DIRECTORY`] with the measurements of the tuning run.
pub(crate) const TUNING_RUN: &str = "tuning_run.json";

/// All pictures: the name of the file in [`DIRECTORY`], and its text. `run` is the text of [`TUNING_RUN`].
///
/// Fails if a picture is not readable: a text is wider than its place, or lies on another text.
pub(crate) fn draw_all(run: &str) -> Result<[(&'static str, String); 2], String> {
    let run = serde_json::from_str(run).map_err(|e| format!("{TUNING_RUN}: {e}"))?;
    Ok([("data_flow.svg", data_flow::draw()?), ("tuning_run.svg", tuning_run::draw(&run)?)])
}
