//! The board's controller, and what watches it.

use std::path::PathBuf;
use std::sync::Arc;

use bus::{Trace, Watch};
use parking_lot::Mutex;
use scenarios::{LayoutWatch, ServedController};

use crate::config::BoardConfig;
use crate::error::BoardError;
use crate::eyes::Eyes;
use crate::folder;
use crate::record::{Record, Side};

/// A controller at a socket in a folder of its own, which goes when QEMU has connected: nothing is left behind then,
/// however this process ends.
pub(crate) fn serve(
    config: &BoardConfig,
    record: &Record,
) -> Result<(PathBuf, ServedController, Option<Arc<Eyes>>), BoardError> {
    let folder = folder::make().map_err(BoardError::system("no folder for the board's socket"))?;
    let socket = folder.path().join("chipidea");
    let (told, folder) = (record.clone(), Mutex::new(Some(folder)));
    let tell = move |event: serve::Event| {
        if event == serve::Event::Connected {
            drop(folder.lock().take());
        }
        told.add(Side::Qemu, event.to_string());
    };
    let told = record.clone();
    let watch: Arc<dyn Watch> = Arc::new(LayoutWatch(move |line| told.add(Side::Device, line)));
    let eyes = config.observe.then(|| Eyes::new(config.trace.clone(), Arc::clone(&watch)));
    let (trace, watch) = match &eyes {
        Some(eyes) => (Trace::to(Arc::clone(eyes) as _), Arc::clone(eyes) as _),
        None => (config.trace.clone(), watch),
    };
    let controller = ServedController::start(&socket, config.glue, config.endpoints, trace, watch, tell)?;
    Ok((socket, controller, eyes))
}
