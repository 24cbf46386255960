//! Loading shared libraries.

use super::symbols::{PREFIX, runtime_pointers};
use super::{ForeignError, host};
use crate::export::ffi_abi::PackedFn;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A loaded library. It stays loaded to the end of the process: threads of its own may run on.
pub(super) struct Library {
    handle: *mut c_void,
}

/// Moves the error that was raised last into the place that is given (TVM-FFI).
pub(super) type MoveFromRaised = unsafe extern "C" fn(*mut *mut u8);
/// Gives up an object (TVM-FFI).
pub(super) type DecRef = unsafe extern "C" fn(*mut u8) -> i32;

impl Library {
    /// Loads a library, and tells it where the functions of TVM's runtime are that it calls.
    ///
    /// # Errors
    /// The system cannot load it, or a function is missing.
    pub(super) fn load(path: &Path) -> Result<Library, ForeignError> {
        let shown = path.display();
        let failed = |why: String| ForeignError(format!("cannot load `{shown}`: {why}"));
        let bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        let pointers = runtime_pointers(path, &bytes)?;
        drop(bytes);
        // A name without a directory would be looked for in those of the system.
        let path = path.canonicalize().map_err(|e| failed(e.to_string()))?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| failed(e.to_string()))?;
        // SAFETY: the name ends with a zero byte. Code of the library may run now: the user has named it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(failed(last_error()));
        }
        let library = Library { handle };
        for pointer in pointers {
            let wanted = pointer.trim_start_matches('_');
            let Some(address) = host::function(wanted).or_else(|| library.symbol(wanted)) else {
                return Err(failed(format!("it calls `{wanted}` of TVM's runtime, which tvmr does not have")));
            };
            if let Some(place) = library.symbol(&pointer) {
                // SAFETY: the library defines a variable of this name, which TVM's loaders set this way.
                unsafe { place.cast::<*mut c_void>().write(address) };
            }
        }
        Ok(library)
    }

    /// The packed function of an exported name.
    pub(super) fn packed(&self, exported: &str) -> Option<PackedFn> {
        let address = self.symbol(&format!("{PREFIX}{exported}"))?;
        // SAFETY: what is exported under such a name has this type, by TVM-FFI's convention.
        Some(unsafe { std::mem::transmute::<*mut c_void, PackedFn>(address) })
    }

    /// The function that hands over errors, if the library brings TVM-FFI with it.
    pub(super) fn move_from_raised(&self) -> Option<MoveFromRaised> {
        let address = self.symbol("TVMFFIErrorMoveFromRaised")?;
        // SAFETY: TVM-FFI has a function of this type under this name.
        Some(unsafe { std::mem::transmute::<*mut c_void, MoveFromRaised>(address) })
    }

    /// The function that gives up objects, if the library brings TVM-FFI with it.
    pub(super) fn dec_ref(&self) -> Option<DecRef> {
        let address = self.symbol("TVMFFIObjectDecRef")?;
        // SAFETY: TVM-FFI has a function of this type under this name.
        Some(unsafe { std::mem::transmute::<*mut c_void, DecRef>(address) })
    }

    /// The address of a symbol of the library or of those that it needs.
    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is that of a loaded library, and the name ends with a zero byte.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// What the system says about the last failure.
fn last_error() -> String {
    // SAFETY: it returns null, or a string that lives to the next such call of this thread.
    let text = unsafe { libc::dlerror().as_ref().map(|first| CStr::from_ptr(first)) };
    text.map_or("the system gives no reason".to_owned(), |text| text.to_string_lossy().into_owned())
}
