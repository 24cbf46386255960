//! The sizes that `tvmr build` makes versions for, as `--bind` and `--shape` list them.

use super::exit::Failure;
use super::shapes::{self, Shape};
use crate::graph;

/// The most versions that one function is built in.
const MOST_VERSIONS: usize = 1024;

/// The values of one or several extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes(pub Vec<(String, Vec<i64>)>);

/// Parses `n=1..8,16,32`, and `n=1,m=8`.
pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    let mut all: Vec<(String, Vec<i64>)> = Vec::new();
    for part in text.split(',') {
        // What stands before `=` is a name, unless that belongs to a range such as `1..=8`.
        let (name, range) = match part.split_once('=') {
            Some((name, range)) if !name.contains("..") => (Some(name.trim()), range),
            _ => (None, part),
        };
        match name {
            Some("") => return Err("expected a name before `=`".to_owned()),
            Some(name) => all.push((name.to_owned(), Vec::new())),
            None => {}
        }
        let Some((_, values)) = all.last_mut() else { return Err("expected `name=values`".to_owned()) };
        for value in range_of(range)? {
            if values.contains(&value) {
                return Err(format!("the value {value} is given twice"));
            }
            values.push(value);
        }
    }
    Ok(Sizes(all))
}

/// The integers of a range such as `1..8`, which has its last one, or the only one.
fn range_of(text: &str) -> Result<std::ops::RangeInclusive<i64>, String> {
    let number = |t: &str| t.trim().parse::<i64>().map_err(|_| format!("expected an integer, found `{t}`"));
    let Some((first, last)) = text.split_once("..") else {
        let only = number(text)?;
        return Ok(only..=only);
    };
    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
    if first > last {
        return Err(format!("the range `{text}` is empty"));
    }
    if last.abs_diff(first) >= MOST_VERSIONS as u64 {
        return Err(format!("the range `{text}` has more than {MOST_VERSIONS} values"));
    }
    Ok(first..=last)
}

/// What one version is built for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    /// Values of symbols.
    pub bind: Vec<(String, i64)>,
    /// A shape for each input that has some.
    pub shapes: Vec<Shape>,
}

/// All choices: the product of the lists of values, each with all shapes.
///
/// # Errors
/// There are too many, or the lists of shapes do not agree.
pub(super) fn choices(bind: &[(String, Vec<i64>)], shapes: &[Shape]) -> Result<Vec<Choice>, Failure> {
    let alternatives = alternatives(shapes)?;
    let too_many = |n: usize| -> Result<(), Failure> {
        if n <= MOST_VERSIONS {
            return Ok(());
        }
        let message = format!("`--bind` and `--shape` ask for more than {MOST_VERSIONS} versions of each function");
        Err(Failure::Usage(message, "give fewer values".to_string()))
    };
    let mut all = vec![Vec::new()];
    for (name, values) in bind {
        too_many(all.len().saturating_mul(values.len()))?;
        all = all
            .iter()
            .flat_map(|choice: &Vec<(String, i64)>| {
                values.iter().map(move |&v| choice.iter().cloned().chain([(name.clone(), v)]).collect())
            })
            .collect();
    }
    too_many(all.len().saturating_mul(alternatives.len()))?;
    let with_shapes = |bind: &Vec<(String, i64)>| {
        let one = |shapes: &Vec<Shape>| Choice { bind: bind.clone(), shapes: shapes.clone() };
        alternatives.iter().map(one).collect::<Vec<Choice>>()
    };
    Ok(all.iter().flat_map(with_shapes).collect())
}

/// The shapes of each version: the k-th one of each input that has several, and the only one of the others.
fn alternatives(shapes: &[Shape]) -> Result<Vec<Vec<Shape>>, Failure> {
    let mut inputs: Vec<(&str, Vec<&Shape>)> = Vec::new();
    for shape in shapes {
        match inputs.iter_mut().find(|(name, _)| *name == shape.0) {
            Some((_, list)) => list.push(shape),
            None => inputs.push((&shape.0, vec![shape])),
        }
    }
    let mut several = inputs.iter().filter(|(_, list)| list.len() > 1);
    let Some((first, list)) = several.next() else { return Ok(vec![shapes.to_vec()]) };
    let n = list.len();
    if let Some((other, list)) = several.find(|(_, list)| list.len() != n) {
        let message = format!("`--shape` gives {n} shapes of `{first}` and {} of `{other}`", list.len());
        let help =
            "the shapes of a version are those in the same place of each list; give as many, or only one for all";
        return Err(Failure::Usage(message, help.to_owned()));
    }
    let pick = |k: usize| inputs.iter().filter_map(move |(_, list)| list.get(k).or(list.first())).copied().cloned();
    let all: Vec<Vec<Shape>> = (0..n).map(|k| pick(k).collect()).collect();
    for (k, one) in all.iter().enumerate() {
        if all[..k].contains(one) {
            let shown = one.iter().map(|(name, extents)| format!("`{name}` {extents:?}")).collect::<Vec<_>>();
            let message = format!("`--shape` gives the same shapes twice: {}", shown.join(", "));
            return Err(Failure::Usage(message, String::new()));
        }
    }
    Ok(all)
}

/// The versions by the values of symbols.
pub(super) struct Versions {
    /// The names of the sizes by which callers choose a version. Those of `--bind` come first.
    pub size_names: Vec<String>,
    /// The values of the sizes in each version.
    pub sizes: Vec<Vec<i64>>,
    /// The values of all symbols in each version, as far as options tell them.
    pub told: Vec<Vec<(String, i64)>>,
}

/// The versions of choices. Sizes are the symbols whose values differ, and the number of samples in a batch. `graphs` gives the graphs
/// with their symbols.
///
/// # Errors
/// There is no such input, the shapes of two versions give all symbols the same values, or some have no number of samples.
pub(super) fn versions(
    program: &str,
    choices: &[Choice],
    batch: Option<&str>,
    graphs: impl FnOnce() -> Result<Vec<graph::Function>, Failure>,
) -> Result<Versions, Failure> {
    let differ = |values: &[Option<i64>]| values.iter().any(|v| *v != values[0]);
    let value = |list: &[(String, i64)], name: &str| list.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    let has_shapes = batch.is_some() || choices.iter().any(|c| c.shapes != choices[0].shapes);
    let graphs = if has_shapes { graphs()? } else { Vec::new() };
    let mut told: Vec<Vec<(String, i64)>> = Vec::new();
    for choice in choices {
        let mut all = choice.bind.clone();
        if has_shapes {
            all.extend(shapes::symbols(&graphs, program, &choice.shapes)?);
        }
        told.push(all);
    }
    let mut names: Vec<String> = Vec::new();
    for (name, _) in told.iter().flatten() {
        let values: Vec<Option<i64>> = told.iter().map(|list| value(list, name)).collect();
        if !names.contains(name) && (differ(&values) || batch == Some(name.as_str())) {
            names.push(name.clone());
        }
    }
    let sizes: Vec<Vec<i64>> =
        told.iter().map(|list| names.iter().filter_map(|name| value(list, name)).collect()).collect();
    if let Some(k) = (1..sizes.len()).find(|&k| sizes[..k].contains(&sizes[k])) {
        let shown = choices[k].shapes.iter().map(|(name, extents)| format!("`{name}` {extents:?}"));
        let message = format!("no symbol tells the shapes {} from others", shown.collect::<Vec<_>>().join(", "));
        let help = "several shapes of an input must differ in extents that are symbols".to_owned();
        return Err(Failure::Usage(message, help));
    }
    if let Some(batch) = batch {
        let known: Vec<&str> = told[0].iter().map(|(name, _)| name.as_str()).collect();
        check_samples(batch, &known, &names, &sizes)?;
    }
    Ok(Versions { size_names: names, sizes, told })
}

/// Checks that parts of a batch add up to any number of samples: with each choice of the other sizes, there is a version for one.
fn check_samples(batch: &str, known: &[&str], names: &[String], sizes: &[Vec<i64>]) -> Result<(), Failure> {
    let refuse = |message: String| {
        let help = match known.contains(&batch) || known.is_empty() {
            true => format!("give it values from 1 on, such as `--bind {batch}=1,8`"),
            false => format!("the options give values to `{}`", known.join("`, `")),
        };
        Err(Failure::Usage(message, help))
    };
    let at = names.iter().position(|name| name == batch);
    let Some(at) = at.filter(|_| sizes.iter().all(|s| s.len() == names.len())) else {
        return refuse(format!("`--batch-loop {batch}`: not every version has a value of `{batch}`"));
    };
    if let Some(n) = sizes.iter().map(|s| s[at]).find(|&n| n < 1) {
        return refuse(format!("`--batch-loop {batch}`: a version is for {n} samples"));
    }
    let one = |sizes: &Vec<i64>| {
        let mut one = sizes.clone();
        one[at] = 1;
        one
    };
    match sizes.iter().all(|s| sizes.contains(&one(s))) {
        true => Ok(()),
        false => refuse(format!("`--batch-loop {batch}` needs versions for `{batch}` = 1, which compute what is left")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_and_ranges() {
        let all =
            |list: &[(&str, &[i64])]| Ok(Sizes(list.iter().map(|(n, v)| ((*n).to_owned(), v.to_vec())).collect()));
        assert_eq!(sizes("n=1..4,16"), all(&[("n", &[1, 2, 3, 4, 16])]));
        assert_eq!(sizes("n=1..=2"), all(&[("n", &[1, 2])]));
        assert_eq!(sizes("n=7"), all(&[("n", &[7])]));
        assert_eq!(sizes("n=7,3..=4,m=1,k=-2"), all(&[("n", &[7, 3, 4]), ("m", &[1]), ("k", &[-2])]));
        for (text, why) in [
            ("n", "expected `name=values`"),
            ("=3", "expected a name"),
            ("n=4..1", "is empty"),
            ("n=1,1", "given twice"),
            ("n=x", "expected an integer"),
            ("n=0..100000", "more than 1024"),
        ] {
            assert!(sizes(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }

    fn shape(name: &str, extents: &[i64]) -> Shape {
        (name.to_owned(), extents.to_vec())
    }

    #[test]
    fn choices_are_a_product() {
        let bind = [("n".to_owned(), vec![1, 2]), ("m".to_owned(), vec![3]), ("k".to_owned(), vec![4, 5])];
        let all = choices(&bind, &[]).expect("few");
        assert_eq!(all.len(), 4);
        assert_eq!(all[1].bind, [("n".to_owned(), 1), ("m".to_owned(), 3), ("k".to_owned(), 5)]);
        assert_eq!(choices(&[], &[]).expect("one"), [Choice { bind: vec![], shapes: vec![] }]);
        let many = [("n".to_owned(), (0..600).collect())];
        let two = [shape("x", &[1]), shape("x", &[2])];
        assert!(choices(&many, &[]).is_ok_and(|all| all.len() == 600));
        assert!(choices(&many, &two).is_err());
    }

    #[test]
    fn shapes_in_the_same_place_belong_together() {
        let (x, y, w) = ([shape("x", &[1]), shape("x", &[2])], [shape("y", &[3]), shape("y", &[4])], shape("w", &[5]));
        let given = [x[0].clone(), w.clone(), x[1].clone(), y[0].clone(), y[1].clone()];
        let all: Vec<Vec<Shape>> = choices(&[], &given).expect("two").into_iter().map(|c| c.shapes).collect();
        let pick = |k: usize| vec![x[k].clone(), w.clone(), y[k].clone()];
        assert_eq!(all, [pick(0), pick(1)]);
        let refused = |given: &[Shape], why: &str| {
            let found = choices(&[], given).map_err(|e| format!("{e:?}"));
            assert!(found.is_err_and(|e| e.contains(why)), "{why}");
        };
        refused(&[x[0].clone(), x[1].clone(), x[0].clone()], "the same shapes twice: `x` [1]");
        refused(&[&x[..], &y[..], &[shape("y", &[5])]].concat(), "2 shapes of `x` and 3 of `y`");
    }
}
