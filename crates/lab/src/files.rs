//! Files of reports, which are the user's and not a store's. They are written whole, so that a file
//! that exists can be trusted.
#![allow(clippy::disallowed_methods, reason = "files outside of any store")]

use std::path::Path;

/// Makes a folder, unless it is there.
///
/// # Errors
/// It cannot be made; the text names it.
pub fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path)
        .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))
}

/// Writes a file. It is renamed into place when it is whole.
///
/// # Errors
/// It cannot be written; the text names it.
pub fn write(file: &Path, content: &str) -> Result<(), String> {
    let fresh = file.with_added_extension("new");
    std::fs::write(&fresh, content)
        .and_then(|()| std::fs::rename(&fresh, file))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The content of a file; `None` if it cannot be read.
pub fn read(file: &Path) -> Option<Vec<u8>> {
    std::fs::read(file).ok()
}
