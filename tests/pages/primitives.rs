//! docs/primitives.md: the primitives, from the heads in `src/scheduling/schedule/primitive`.

use super::head::{Section, rust_files, sections};
use super::{NOTICE, check_after, check_page, part, parts, path, program};
use tvmr::schedule::{Schedule, primitive};
use tvmr::schedule_function::ScheduleFunction;

/// Primitives that may come after changes of the program, but make none that an example could show.
const CHANGE_NOTHING: [&str; 1] = ["enter_postproc"];

/// The general sections, which the head of the parent module holds.
fn general() -> Vec<Section> {
    sections(&path("src/scheduling/schedule/primitive/mod.rs"))
}

/// The sections of the primitives, sorted by name.
fn of_primitives() -> Vec<Section> {
    let files = rust_files(&path("src/scheduling/schedule/primitive"));
    let mut found: Vec<Section> = files.iter().flat_map(|f| sections(f)).filter(|s| s.name().is_some()).collect();
    found.sort_by(|a, b| a.name().cmp(&b.name()));
    found
}

/// The effect of a primitive on handles.
struct Handles<'s> {
    dies: &'s str,
    persists: &'s str,
    created: &'s str,
}

impl<'s> Handles<'s> {
    /// Reads `* Handles: dies: …; persists: …; created: ….`, in which the first and the last part may be absent.
    fn of(section: &'s Section, line: &'s str) -> Handles<'s> {
        let mut handles = Handles { dies: "–", persists: "–", created: "–" };
        let first = line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.');
        for part in first.split("; ") {
            match part.split_once(": ") {
                Some(("dies", what)) => handles.dies = what,
                Some(("persists", what)) => handles.persists = what,
                Some(("created", what)) => handles.created = what,
                _ => panic!("{}: `{part}` is none of dies, persists, created", section.title),
            }
        }
        assert!(handles.persists != "–", "{}: states which handles persist", section.title);
        handles
    }
}

/// The bullet `* NAME: …` of a section as one line.
fn bullet(section: &Section, name: &str) -> String {
    let mut lines = section.body.lines().skip_while(|l| !l.starts_with(&format!("* {name}: ")));
    let first = lines.next().unwrap_or_else(|| panic!("{}: there is no bullet `{name}`", section.title));
    let mut text = first[format!("* {name}: ").len()..].to_string();
    for line in lines.take_while(|l| l.starts_with("  ")) {
        text = format!("{text} {}", line.trim_start());
    }
    text
}

#[test]
fn the_page_is_made_from_the_heads_and_its_examples_are_true() {
    check_examples();
    let (general, primitives) = (general(), of_primitives());
    let names: Vec<&str> = primitives.iter().filter_map(Section::name).collect();
    let mut kinds = primitive::ALL.to_vec();
    kinds.sort_by_key(|k| k.method);
    let methods: Vec<&str> = kinds.iter().map(|k| k.method).collect();
    assert_eq!(names, methods, "each primitive has one section in the head of its file");

    let titles: Vec<&str> = general.iter().map(|s| s.title.as_str()).collect();
    assert_eq!(titles, ["Primitives", "Handles"], "the sections of src/scheduling/schedule/primitive/mod.rs");
    let mut page = format!("# Primitives\n\n{NOTICE}\n\n{}\n", general[0].text(1));
    page += &format!("## Handles\n\n{}\n", general[1].text(1));
    page += "| primitive | dies | persists | created |\n| --- | --- | --- | --- |\n";
    for section in &primitives {
        let line = bullet(section, "Handles");
        let Handles { dies, persists, created } = Handles::of(section, &line);
        page += &format!("| {} | {dies} | {persists} | {created} |\n", section.title);
    }
    for (section, kind) in primitives.iter().zip(&kinds) {
        for name in ["Requires", "Errors"] {
            bullet(section, name);
        }
        page += &format!("\n## `{}`\n\n{}", kind.signature(), section.text(2));
    }
    check_page("docs/primitives.md", &page);
}

/// Runs the example of each primitive.
fn check_examples() {
    let mut failures = String::new();
    let mut n_run = 0;
    for section in of_primitives() {
        let method = section.name().unwrap_or_default();
        let Some(kind) = primitive::by_method(method) else { continue };
        let result = match section.example() {
            Some(example) => {
                n_run += 1;
                run(example, method).and_then(|made| check_after(&parts(example), &made))
            }
            None if !kind.may_change_program() || CHANGE_NOTHING.contains(&method) => Ok(None),
            None => Err("the section has no example".to_string()),
        };
        match result {
            Ok(None) => (),
            Ok(Some((old, new))) => section.replace(&old, &new),
            Err(why) => failures += &format!("{}, `{method}`: {why}\n\n", section.file.display()),
        }
    }
    assert!(failures.is_empty(), "{failures}");
    let n_changing = primitive::ALL.iter().filter(|k| k.may_change_program()).count();
    assert!(n_run >= n_changing - CHANGE_NOTHING.len(), "only {n_run} examples were run");
}

/// The program `before` of an example after its function `steps`, which must use the primitive.
fn run(example: &str, method: &str) -> Result<tvmr::ir::Module, String> {
    let parts = parts(example);
    let module = program(part(&parts, "before")?, "before")?;
    let steps = part(&parts, "steps")?;
    if !steps.contains(&format!("sch.{method}(")) {
        return Err(format!("the example does not call `{method}`"));
    }
    let steps = ScheduleFunction::parse(steps, "steps.py").map_err(|e| e.to_string())?;
    let mut schedule = Schedule::new(&module, 0);
    steps.apply(&mut schedule).map_err(|e| e.to_string())?;
    Ok(schedule.module())
}
