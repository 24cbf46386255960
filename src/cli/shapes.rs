//! The values of symbolic extents, as the arguments `--shape` tell them: `--shape x=1,3,224,224`.

pub(super) use crate::request::shapes::{Shape, shaped, symbols};

/// Parses `x=1,3,224,224`.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let (name, extents) = text.split_once('=').ok_or("expected `name=extents`, such as `x=1,3,224,224`")?;
    let (name, extents) = (name.trim(), extents.trim());
    if name.is_empty() {
        return Err("expected a name before `=`".to_owned());
    }
    let extent = |text: &str| match text.trim().parse::<i64>() {
        Ok(n) if n >= 0 => Ok(n),
        _ => Err(format!("expected an extent, which is a whole number from 0, found `{}`", text.trim())),
    };
    let extents = match extents {
        "" => Vec::new(),
        _ => extents.split(',').map(extent).collect::<Result<_, _>>()?,
    };
    Ok((name.to_owned(), extents))
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn shapes_are_names_and_extents() {
        assert_eq!(shape("x=1,3, 224"), Ok(("x".to_owned(), vec![1, 3, 224])));
        assert_eq!(shape("x="), Ok(("x".to_owned(), vec![])));
        for (text, why) in
            [("x", "expected `name=extents`"), ("=1", "a name before"), ("x=1,-2", "found `-2`"), ("x=1,", "found ``")]
        {
            assert!(shape(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }
}
