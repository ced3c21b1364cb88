//! The C text that stands around a kernel file.

use std::fs;
use std::io;
use std::path::Path;

macro_rules! shim {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../shim/", $path)))),*]
    };
}

/// Every file of it, by its place.
pub(crate) const FILES: &[(&str, &str)] = shim![
    "abi.h",
    "dmapool.h",
    "entry/dmapool.c",
    "guard/guard.h",
    "kernel.h",
    "kernel/device.h",
    "kernel/list.h",
    "kernel/lock.h",
    "kernel/math.h",
    "kernel/memory.h",
    "kernel/module.h",
    "kernel/percpu.h",
    "kernel/print.h",
    "kernel/types.h",
    "runtime/all.c",
    "runtime/call.c",
    "runtime/device.c",
    "runtime/lock.c",
    "runtime/memory.c",
    "runtime/percpu.c",
    "runtime/print.c",
    "runtime/runtime.h",
];

/// Writes it all into `folder`.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    for (place, text) in FILES {
        let path = folder.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)?;
    }
    Ok(())
}
