//! The C text that stands around udc.c.

use std::fs;
use std::io;
use std::path::Path;

use c_bridge::parts::GUARD;

macro_rules! glue {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../glue/", $name)))),*]
    };
}

/// Every file of it, by its name.
const FILES: &[(&str, &str)] = glue!["all.c", "calls.c", "config.h", "core.c", "gadget.c", "glue.h", "kernel.c"];

/// All files, with those that say what a guarded call is.
pub(crate) fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied().chain(GUARD)
}

/// Writes them into `folder`.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    for (place, text) in files() {
        let path = folder.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)?;
    }
    Ok(())
}
