//! Keeps a panic in one candidate from ending the search.
//!
//! A panic is a bug of tvmr, but it concerns a single candidate: the search records it and continues. The message goes
//! into the record instead of to standard error.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IS_ISOLATED: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work` and catches a panic. State that `work` changes must not be used after a panic.
///
/// # Errors
/// `work` panicked; the text says where and why.
pub fn isolated<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_ISOLATED.get() {
                MESSAGE.set(describe(info));
            } else {
                before(info);
            }
        }));
    });
    let outer = IS_ISOLATED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_ISOLATED.set(outer);
    result.map_err(|_| format!("a bug in tvmr: {}", MESSAGE.take()))
}

fn describe(info: &panic::PanicHookInfo<'_>) -> String {
    let text = info.payload_as_str().unwrap_or("panicked");
    // Summaries show a single line.
    let text = text.lines().next().unwrap_or_default();
    match info.location() {
        Some(place) => format!("{text} ({}:{})", place.file(), place.line()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_message() {
        assert_eq!(isolated(|| 3), Ok(3));
        let message = isolated(|| -> u32 { panic!("no loop {}\nnor block", 7) }).unwrap_err();
        assert!(message.starts_with("a bug in tvmr: no loop 7 (src"), "{message}");
        // Nested calls restore the outer state.
        let nested = isolated(|| isolated(|| panic!("inner")).is_err() && panic!("outer"));
        assert!(nested.unwrap_err().contains("outer"));
    }
}
