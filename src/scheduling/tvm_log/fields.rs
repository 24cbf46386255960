//! Parts of JSON lines: typed access that says what was expected and found.

use serde_json::{Map, Value};

/// The items of a list, read one after the other.
pub(super) struct Fields<'a> {
    items: std::slice::Iter<'a, Value>,
    of: &'a str,
}

impl<'a> Fields<'a> {
    /// The items of a list that is called `of` in messages.
    pub(super) fn of(json: &'a Value, of: &'a str) -> Result<Fields<'a>, String> {
        Ok(Fields { items: list(json, of)?.iter(), of })
    }

    /// The next item, whatever it is.
    pub(super) fn next(&mut self, what: &str) -> Result<&'a Value, String> {
        self.items.next().ok_or_else(|| format!("{} has no item for {what}", self.of))
    }

    /// The next item, an integer.
    pub(super) fn int(&mut self, what: &str) -> Result<i64, String> {
        let of = self.of;
        int(self.next(what)?).map_err(|found| format!("{of}: expected an integer for {what}, found {found}"))
    }

    /// The next item, a position in a list.
    pub(super) fn position(&mut self, what: &str) -> Result<usize, String> {
        let n = self.int(what)?;
        usize::try_from(n).map_err(|_| format!("{}: expected a position for {what}, found {n}", self.of))
    }

    /// The next item, a list of positions.
    pub(super) fn positions(&mut self, what: &str) -> Result<Vec<usize>, String> {
        let all = self.ints(what)?;
        let position =
            |n| usize::try_from(n).map_err(|_| format!("{}: expected positions for {what}, found {n}", self.of));
        all.into_iter().map(position).collect()
    }

    /// The next item, a list of integers.
    pub(super) fn ints(&mut self, what: &str) -> Result<Vec<i64>, String> {
        let of = self.of;
        let item = |v| int(v).map_err(|found| format!("{of}: expected integers for {what}, found {found}"));
        list(self.next(what)?, what)?.iter().map(item).collect()
    }

    /// The next item, a text.
    pub(super) fn text(&mut self, what: &str) -> Result<&'a str, String> {
        let of = self.of;
        let found = self.next(what)?;
        found.as_str().ok_or_else(|| format!("{of}: expected a text for {what}, found {}", kind(found)))
    }
}

/// An integer; truth values, which programs that rewrite logs make of some, count as 0 and 1.
fn int(json: &Value) -> Result<i64, &'static str> {
    match json {
        Value::Bool(b) => Ok(i64::from(*b)),
        other => other.as_i64().ok_or(kind(other)),
    }
}

/// A list that is called `what` in messages.
pub(super) fn list<'a>(json: &'a Value, what: &str) -> Result<&'a [Value], String> {
    json.as_array().map(Vec::as_slice).ok_or_else(|| format!("expected {what} to be a list, found {}", kind(json)))
}

/// An object that is called `what` in messages.
pub(super) fn object<'a>(json: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    json.as_object().ok_or_else(|| format!("expected {what} to be an object, found {}", kind(json)))
}

/// A field of an object.
pub(super) fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    fields.get(name).ok_or_else(|| format!("the field `{name}` is missing"))
}

/// The kind of a value, for messages.
pub(super) fn kind(json: &Value) -> &'static str {
    match json {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
