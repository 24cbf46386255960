//! The assignment of arrays in files, and of numbers, to parameters, for `tvmr run`.

use super::console::Console;
use super::exit::Failure;
use crate::arrays::{Array, ArrayError, ArrayFile, Format, Output, Stored};
use crate::diagnostic::nearest;
use crate::ir::{BoundParam, DType};
use crate::request::Error;
use crate::run::Parameter;
use std::path::{Path, PathBuf};

/// A file for one parameter, or for those that are not named: `A=a.npy`, `0=a.npy`, `a.npy`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Named {
    pub which: Which,
    pub path: PathBuf,
}

/// The parameter that a file is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// Not said.
    Any,
    /// The one with this name.
    Name(String),
    /// The one at this position, from 0.
    Position(usize),
}

/// Parses `[NAME=]FILE`. What stands before the first `=` is a name or position if it looks like one, and part of the path
/// otherwise.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (which, path) = match text.split_once('=') {
        Some((name, path)) if is_identifier(name) => (Which::Name(name.to_owned()), path),
        Some((name, path)) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) => {
            let position = name.parse().map_err(|_| format!("there is no position {name}"))?;
            (Which::Position(position), path)
        }
        _ => (Which::Any, text),
    };
    if path.is_empty() {
        return Err("expected a file, such as `A=a.npy`".to_owned());
    }
    Ok(Named { which, path: PathBuf::from(path) })
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && characters.all(|c| c.is_alphanumeric() || c == '_')
}

/// The parameters of a function, for which files are given.
pub(super) struct Given<'a> {
    /// The function's name.
    name: &'a str,
    params: &'a [Parameter],
    /// Scalars with values.
    bound: &'a [BoundParam],
}

/// The value of a parameter.
pub(super) struct Value {
    pub array: Array,
    /// The file that it comes from.
    pub path: PathBuf,
}

/// The array that an output is compared with.
pub(super) struct Expected {
    pub param: usize,
    pub array: Array,
    /// The file that it comes from.
    pub path: PathBuf,
}

impl<'a> Given<'a> {
    pub(super) fn new(name: &'a str, params: &'a [Parameter], bound: &'a [BoundParam]) -> Given<'a> {
        Given { name, params, bound }
    }

    /// The values that files give to parameters. A file for one parameter counts more than one for many; a file without a name
    /// is for the first input that has no value then.
    pub(super) fn inputs(
        &self,
        single: &[Named],
        many: &[PathBuf],
        random: bool,
        console: Console,
    ) -> Result<Vec<Option<Value>>, Failure> {
        let mut values: Vec<Option<Value>> = self.params.iter().map(|_| None).collect();
        for named in single.iter().filter(|n| n.which != Which::Any) {
            let param = self.position(named)?;
            if !self.params[param].role.is_read() {
                let what = &self.params[param].name;
                let message = format!("`{what}` of `{}` is only written; nothing would read a value", self.name);
                return Err(Failure::Usage(message, String::new()));
            }
            if let Some(other) = &values[param] {
                return Err(self.twice(param, &other.path, &named.path));
            }
            values[param] = Some(self.one(param, &named.path)?);
        }
        let mut unused = Vec::new();
        let mut from_many: Vec<usize> = Vec::new();
        for path in many {
            let file = opened(path)?;
            if file.is_single() {
                let help = format!("name the parameter: `--input NAME={}`", path.display());
                let message = format!("`{}` holds one array without a name", path.display());
                return Err(Failure::Usage(message, help));
            }
            let params = self.by_names(&file, |p| p.role.is_read());
            for (i, param) in params.into_iter().enumerate() {
                match param {
                    Some(param) if !self.params[param].role.is_read() => {}
                    Some(param) => match &values[param] {
                        Some(other) if from_many.contains(&param) => {
                            return Err(self.twice(param, &other.path, path));
                        }
                        Some(_) => {}
                        None => {
                            values[param] = Some(self.read(param, &file, i)?);
                            from_many.push(param);
                        }
                    },
                    None => unused.push((path, file.names()[i].to_owned())),
                }
            }
        }
        for named in single.iter().filter(|n| n.which == Which::Any) {
            let next = (0..self.params.len()).find(|&i| self.params[i].role.is_read() && values[i].is_none());
            let Some(param) = next else {
                let message = format!("`{}` is one more than the inputs of `{}`", named.path.display(), self.name);
                return Err(Failure::Usage(message, self.listed(|p| p.role.is_read())));
            };
            values[param] = Some(self.one(param, &named.path)?);
        }
        let is_missing = |&i: &usize| self.params[i].role.is_read() && values[i].is_none();
        let missing: Vec<usize> = (0..self.params.len()).filter(is_missing).collect();
        if !missing.is_empty() && !random {
            return Err(self.missing(&missing, &unused));
        }
        // A model may have weights that its graph does not need, such as zero points that are all 0.
        for (path, name) in unused.into_iter().filter(|(path, _)| !crate::onnx::is_model(path)) {
            console.note(&format!("`{name}` in `{}` is no parameter of `{}`", path.display(), self.name));
        }
        Ok(values)
    }

    /// The arrays that outputs are compared with.
    pub(super) fn expected(&self, files: &[Named]) -> Result<Vec<Expected>, Failure> {
        let mut all: Vec<Expected> = Vec::new();
        for named in files {
            let params = match &named.which {
                Which::Any => self.outputs(&named.path, true)?,
                Which::Name(_) | Which::Position(_) => vec![self.written(named)?],
            };
            let file = opened(&named.path)?;
            let by_names = self.by_names(&file, |p| p.role.is_written());
            for param in params {
                if let Some(other) = all.iter().find(|e| e.param == param) {
                    return Err(self.twice(param, &other.path, &named.path));
                }
                let i = match (file.is_single(), by_names.iter().position(|p| *p == Some(param))) {
                    (true, _) => 0,
                    (false, Some(i)) => i,
                    (false, None) if named.which != Which::Any && by_names.len() == 1 => 0,
                    (false, None) => {
                        let what = &self.params[param].name;
                        let message = format!("`{}` has no array `{what}` to compare with", named.path.display());
                        return Err(Failure::Usage(message, held(&file)));
                    }
                };
                let Value { array, path } = self.read(param, &file, i)?;
                all.push(Expected { param, array, path });
            }
        }
        Ok(all)
    }

    /// The outputs that go to a file without a name, or are compared with it: all, or the only one if the file holds one array.
    fn outputs(&self, path: &Path, is_there: bool) -> Result<Vec<usize>, Failure> {
        let outputs: Vec<usize> = (0..self.params.len()).filter(|&i| self.params[i].role.is_written()).collect();
        let is_single = if is_there { opened(path)?.is_single() } else { format_of(path)? == Format::Npy };
        match outputs.len() {
            1 => Ok(outputs),
            n if is_single || n == 0 => {
                let message = format!("`{}` is one array, and `{}` has {n} outputs", path.display(), self.name);
                let help =
                    format!("say which, such as `NAME={}`; {}", path.display(), self.listed(|p| p.role.is_written()));
                Err(Failure::Usage(message, help))
            }
            _ => Ok(outputs),
        }
    }

    /// The output that a file is for.
    fn written(&self, named: &Named) -> Result<usize, Failure> {
        let param = self.position(named)?;
        match self.params[param].role.is_written() {
            true => Ok(param),
            false => {
                let message = format!("`{}` is no output of `{}`", self.params[param].name, self.name);
                Err(Failure::Usage(message, self.listed(|p| p.role.is_written())))
            }
        }
    }

    /// The position of the parameter that a file is for.
    fn position(&self, named: &Named) -> Result<usize, Failure> {
        let unknown = |what: String| {
            let names = self.params.iter().map(|p| p.name.as_str());
            let near = if let Which::Name(name) = &named.which { nearest(name, names) } else { None };
            let help = near.map_or_else(|| self.listed(|_| true), |near| format!("there is `{near}`"));
            Failure::Usage(what, help)
        };
        match &named.which {
            Which::Position(i) if *i < self.params.len() => Ok(*i),
            Which::Position(i) => {
                let n = self.params.len();
                Err(unknown(format!("`{}` has {n} parameters, at positions from 0, and none at {i}", self.name)))
            }
            Which::Name(name) => {
                let found: Vec<usize> = (0..self.params.len()).filter(|&i| self.params[i].name == *name).collect();
                match found[..] {
                    [one] => Ok(one),
                    [] if self.bound.iter().any(|b| b.name.as_str() == name) => {
                        let message = format!("`{name}` of `{}` is a scalar, whose value `--bind` gives", self.name);
                        Err(Failure::Usage(message, String::new()))
                    }
                    [] => Err(unknown(format!("`{}` has no parameter `{name}`", self.name))),
                    _ => Err(unknown(format!("`{}` has several parameters `{name}`; say a position", self.name))),
                }
            }
            Which::Any => Err(unknown("no parameter is named".to_owned())),
        }
    }

    /// For each array of a file the parameter with its name. Arrays that NumPy has named by position (`arr_0`) are for the
    /// parameters of a kind in order.
    fn by_names(&self, file: &ArrayFile, kind: impl Fn(&Parameter) -> bool) -> Vec<Option<usize>> {
        let mut params: Vec<Option<usize>> = vec![None; file.names().len()];
        // Of several parameters with a name, the first one is meant.
        for (param, Parameter { name, .. }) in self.params.iter().enumerate().rev() {
            if let Some(i) = file.position_for(name) {
                params[i] = Some(param);
            }
        }
        let numbered = |name: &str| {
            let n: usize = name.strip_prefix("arr_")?.parse().ok()?;
            (0..self.params.len()).filter(|&i| kind(&self.params[i])).nth(n)
        };
        params.into_iter().zip(file.names()).map(|(param, name)| param.or_else(|| numbered(name))).collect()
    }

    /// Reads a file for one parameter: its only array, or the one with the parameter's name. For a parameter of rank 0, a number
    /// may stand in place of a file.
    fn one(&self, param: usize, path: &Path) -> Result<Value, Failure> {
        let Parameter { name, dtype, shape, .. } = &self.params[param];
        if let Some(text) = path.to_str().filter(|_| shape.is_empty()) {
            if let Some(array) = Array::number(*dtype, text) {
                return Ok(Value { array, path: path.to_owned() });
            }
            if text.parse::<f64>().is_ok() || ["true", "false"].contains(&text) {
                let message = format!("`{name}` of `{}` is {dtype}, which `{text}` is not", self.name);
                return Err(Failure::Usage(message, format!("write `./{text}` for a file of that name")));
            }
        }
        let file = opened(path)?;
        let names = file.names();
        let i = match file.position_for(name) {
            Some(i) => i,
            None if names.len() == 1 => 0,
            None => {
                let what = &self.params[param].name;
                let message = format!("`{}` has {} arrays, and none is called `{what}`", path.display(), names.len());
                return Err(Failure::Usage(message, held(&file)));
            }
        };
        self.read(param, &file, i)
    }

    /// Reads an array for a parameter, after a look at its type and shape.
    fn read(&self, param: usize, file: &ArrayFile, i: usize) -> Result<Value, Failure> {
        let param = &self.params[param];
        let header = file.header(i).map_err(failure)?;
        if !header.stored.may_be(param.dtype) || header.shape != param.shape {
            let what = match file.names()[i] {
                "" => format!("`{}`", file.path().display()),
                name => format!("`{name}` in `{}`", file.path().display()),
            };
            let message = format!(
                "`{}` of `{}` is {} {:?}, and {what} is {} {:?}",
                param.name, self.name, param.dtype, param.shape, header.stored, header.shape
            );
            return Err(Failure::Usage(message, mend(param.dtype, header.stored)));
        }
        let array = file.read(i, Some(param.dtype)).map_err(failure)?;
        Ok(Value { array, path: file.path().to_owned() })
    }

    fn twice(&self, param: usize, one: &Path, other: &Path) -> Failure {
        let (name, one, other) = (&self.params[param].name, one.display(), other.display());
        Failure::Usage(format!("two files are given for `{name}`: `{one}` and `{other}`"), String::new())
    }

    fn missing(&self, missing: &[usize], unused: &[(&PathBuf, String)]) -> Failure {
        let list: Vec<String> = missing.iter().map(|&i| self.params[i].to_string()).collect();
        let message = format!("no value for {} of `{}`", list.join(", "), self.name);
        let Parameter { name: first, shape, .. } = &self.params[missing[0]];
        let mut help = match shape.is_empty() {
            true => format!("give numbers or files, such as `--input {first}=1`, or fill them by `--random`"),
            false => format!("give files, such as `--input {first}=FILE.npy`, or fill them by `--random`"),
        };
        if !unused.is_empty() {
            let names: Vec<String> = unused.iter().map(|(_, name)| format!("`{name}`")).collect();
            help += &format!("; the files also hold {}", names.join(", "));
        }
        Failure::Usage(message, help)
    }

    /// The parameters of a kind, for help.
    fn listed(&self, kind: impl Fn(&Parameter) -> bool) -> String {
        let list: Vec<String> = self.params.iter().filter(|p| kind(p)).map(Parameter::to_string).collect();
        if list.is_empty() { "there are none".to_owned() } else { format!("there are {}", list.join(", ")) }
    }
}

/// The files that outputs are written to.
pub(super) struct Wanted<'a> {
    params: &'a [Parameter],
    files: Vec<(PathBuf, Vec<usize>)>,
}

impl<'a> Wanted<'a> {
    /// Checks that the files can hold the outputs.
    pub(super) fn new(given: &Given<'a>, files: &[Named]) -> Result<Wanted<'a>, Failure> {
        let mut all: Vec<(PathBuf, Vec<usize>)> = Vec::new();
        for named in files {
            let params = match &named.which {
                Which::Any => given.outputs(&named.path, false)?,
                Which::Name(_) | Which::Position(_) => vec![given.written(named)?],
            };
            let format = format_of(&named.path)?;
            for &param in &params {
                let Parameter { name, dtype, .. } = &given.params[param];
                if !format.holds(*dtype) {
                    let message = format!("`{}` cannot hold `{name}`, which is {dtype}", named.path.display());
                    return Err(Failure::Usage(message, "write `.npz`".to_owned()));
                }
            }
            if all.iter().any(|(path, _)| *path == named.path) {
                let message = format!("`{}` is to be written twice", named.path.display());
                return Err(Failure::Usage(message, String::new()));
            }
            all.push((named.path.clone(), params));
        }
        Ok(Wanted { params: given.params, files: all })
    }

    /// The files with their content.
    pub(super) fn files<'b>(&self, outputs: &'b [(usize, Array)]) -> Vec<Output<'b>>
    where
        'a: 'b,
    {
        let arrays = |params: &[usize]| {
            let of = |(i, array): &'b (usize, Array)| (self.params[*i].name.as_str(), array);
            outputs.iter().filter(|(i, _)| params.contains(i)).map(of).collect()
        };
        self.files.iter().map(|(path, params)| Output { path: path.clone(), arrays: arrays(params) }).collect()
    }
}

pub(super) fn opened(path: &Path) -> Result<ArrayFile, Failure> {
    ArrayFile::open(path).map_err(failure)
}

fn format_of(path: &Path) -> Result<Format, Failure> {
    Format::of(path).map_err(failure)
}

/// The names of the arrays of a file, for help.
fn held(file: &ArrayFile) -> String {
    let names: Vec<String> = file.names().iter().map(|n| format!("`{n}`")).collect();
    if names.is_empty() { "it is empty".to_owned() } else { format!("it has {}", names.join(", ")) }
}

/// The mend for an array of another type.
fn mend(expected: DType, stored: Stored) -> String {
    match (stored, expected) {
        (Stored::Untyped(n), _) if stored.bytes() == expected.bytes() => {
            format!("NumPy stores types that it does not know as `V{n}`, such as bfloat16")
        }
        _ if !stored.may_be(expected) => "convert the array where it is made; nothing is converted here".to_owned(),
        _ => String::new(),
    }
}

/// A file of arrays that cannot be read or written.
pub(super) fn failure(error: ArrayError) -> Failure {
    Error::of_array(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_file_is_a_name_or_a_position() {
        let of = |text: &str| named(text).map(|n| (n.which, n.path.to_string_lossy().into_owned()));
        let name = |name: &str| Which::Name(name.to_owned());
        assert_eq!(of("A=a.npy"), Ok((name("A"), "a.npy".to_owned())));
        assert_eq!(of("A=b=c.npy"), Ok((name("A"), "b=c.npy".to_owned())));
        assert_eq!(of("12=a.npy"), Ok((Which::Position(12), "a.npy".to_owned())));
        assert_eq!(of("a.npy"), Ok((Which::Any, "a.npy".to_owned())));
        assert_eq!(of("./x=1.npy"), Ok((Which::Any, "./x=1.npy".to_owned())));
        assert_eq!(of("=a.npy"), Ok((Which::Any, "=a.npy".to_owned())));
        assert!(of("A=").is_err() && of("").is_err() && of("99999999999999999999999=a").is_err());
    }
}
