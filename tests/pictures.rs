//! The pictures of the documentation are those that the example `draw_pictures` draws. `TVMR_BLESS=1` rewrites them.

#[path = "../examples/draw_pictures/pictures/mod.rs"]
mod drawing;

use drawing::data_flow::{Kind, NODES};
use drawing::{DIRECTORY, TUNING_RUN, draw_all};
use std::fs;
use std::path::Path;

fn recorded_run() -> String {
    fs::read_to_string(Path::new(DIRECTORY).join(TUNING_RUN)).expect("the recorded tuning run")
}

fn drawn() -> [(&'static str, String); 2] {
    draw_all(&recorded_run()).expect("pictures without overlapping texts")
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
fn a_picture_with_overlapping_texts_is_refused() {
    let run = recorded_run();
    let crowded = run.replace("workloads/", "workloads/in/a/directory/with/a/long/name/");
    assert_ne!(run, crowded);
    let refusal = draw_all(&crowded).expect_err("the command reaches the remark on the right");
    assert!(refusal.contains("overlaps"), "{refusal}");
}

#[test]
fn the_front_page_shows_every_picture() {
    let readme = include_str!("../README.md");
    for (file, _) in drawn() {
        assert!(readme.contains(&format!("](docs/pictures/{file})")), "README.md does not show {file}");
    }
}

#[test]
fn boxes_of_the_data_flow_are_modules_and_commands() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for node in &NODES {
        let path = match node.kind {
            Kind::File => continue,
            Kind::Stage | Kind::Decision | Kind::Store => node.name.replace("::", "/"),
            Kind::Command => {
                let command = node.name.split(' ').nth(1).expect("`tvmr COMMAND`");
                format!("cli/{}.rs", command.replace('-', "_"))
            }
        };
        let is_there = crate::layers::CRATES.iter().any(|dir| source.join(dir).join(&path).exists());
        assert!(is_there, "there is no src/{path} for `{}`", node.name);
    }
}
