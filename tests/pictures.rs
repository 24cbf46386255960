//! The pictures of the documentation are those that the example `draw_pictures` draws. `TVMR_BLESS=1` rewrites them.

#[path = "../examples/draw_pictures/pictures/mod.rs"]
mod drawing;

use drawing::{DIRECTORY, TUNING_RUN, draw_all};
use std::fs;
use std::path::Path;

fn drawn() -> [(&'static str, String); 2] {
    let run = fs::read_to_string(Path::new(DIRECTORY).join(TUNING_RUN)).expect("the recorded tuning run");
    draw_all(&run).expect("pictures without overlapping texts")
}

#[test]
fn committed_pictures_are_those_drawn_now() {
    let bless = std::env::var_os("TVMR_BLESS").is_some_and(|v| v == "1");
    for (file, svg) in drawn() {
        let path = Path::new(DIRECTORY).join(file);
        if bless {
            fs::write(&path, svg).expect("a writable picture");
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(committed == svg, "{} differs from what is drawn now; `TVMR_BLESS=1` rewrites it", path.display());
    }
}

#[test]
fn pictures_are_small_and_stand_alone() {
    for (file, svg) in drawn() {
        assert!(svg.len() < 40_000, "{file} has {} bytes", svg.len());
        for part in ["role=\"img\"", "<title ", "<desc ", "prefers-color-scheme:dark", "class=\"page\""] {
            assert!(svg.contains(part), "{file} has no `{part}`");
        }
        for part in ["<script", "<image", "href", "@import", "url(", "@font-face"] {
            assert!(!svg.contains(part), "{file} has `{part}`");
        }
    }
}

#[test]
fn the_front_page_shows_every_picture() {
    let readme = include_str!("../README.md");
    for (file, _) in drawn() {
        assert!(readme.contains(&format!("](docs/pictures/{file})")), "README.md does not show {file}");
    }
}
