//! `poolproof serve`: a device for a virtual machine of one's own.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use scenarios::{PortPath, ServedBoard, ServedConfig, ServedError, Trace};
use serde_json::json;

use crate::cli::{Device, Glue, Serve};
use crate::error::Error;
use crate::exit::Exit;
use crate::signals::{Signals, ended_by};

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until a signal comes; the status says which.
pub(crate) fn serve(out: &mut dyn Write, arguments: &Serve) -> Result<ExitCode, Error> {
    let port: PortPath = arguments.port.parse().map_err(|error| Error::usage(format!("--port: {error}")))?;
    let socket = std::path::absolute(&arguments.socket).map_err(|error| Error::usage(format!("--socket: {error}")))?;
    let qemu = qemu(&socket, arguments.glue)?;
    let mut signals = Signals::register()?;
    let Device::Chipidea = arguments.device;
    let config = ServedConfig {
        glue: arguments.glue.into(),
        endpoints: arguments.endpoints,
        port,
        speed: arguments.speed.into(),
        trace: Trace::off(),
    };
    let (sender, events) = channel();
    let board = ServedBoard::start(&socket, config, move |event| {
        // After the end of this function nobody listens.
        let _ = sender.send(event);
    });
    let board = board.map_err(|error| match error {
        ServedError::Serve(_) => Error::usage(format!("--socket: {error}")),
        _ => Error::internal(error.to_string()),
    })?;
    write!(out, "{qemu}")?;
    out.flush()?;
    loop {
        match events.recv_timeout(LOOK) {
            Ok(event) => {
                writeln!(out, "{event}")?;
                out.flush()?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Internal.into()),
        }
        if let Some(received) = signals.take() {
            drop(board);
            return Ok(ended_by(received.signal));
        }
    }
}

impl From<Glue> for scenarios::Glue {
    fn from(glue: Glue) -> Self {
        match glue {
            Glue::Pci => Self::Pci,
            Glue::Msm => Self::Msm,
        }
    }
}

/// How to start QEMU with the device, for people: 10.1 or later, with memory that is shared.
fn qemu(socket: &Path, glue: Glue) -> Result<String, Error> {
    let path = socket.to_str().ok_or_else(|| Error::usage("--socket: QEMU takes a path in UTF-8 only"))?;
    let device = json!({"driver": "vfio-user-pci", "socket": {"type": "unix", "path": path}}).to_string();
    let device = format!("-device {}", quoted(&device));
    let memory = "-m 1G -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem";
    let arm64 = format!(
        "aarch64 virt:\n  qemu-system-aarch64 -M virt,gic-version=2 -cpu cortex-a53 -smp 4 {memory} \\\n    {device}"
    );
    Ok(match glue {
        Glue::Pci => format!(
            "{arm64}\nx86_64 q35:\n  qemu-system-x86_64 -M q35 {memory} \\\n    {device}\n\
             virtme-ng:\n  vng --memory 1G --numa 1G --qemu-opts={}\n",
            quoted(&device)
        ),
        // Only a device tree binds it.
        Glue::Msm => format!("{arm64} \\\n    -dtb BOARD.dtb # with a node qcom,ci-hdrc over BAR 0\n"),
    })
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        let text = qemu(Path::new("/tmp/a b'c\".sock"), Glue::Pci).expect("UTF-8");
        assert!(text.contains(r#""path":"/tmp/a b'\''c\".sock""#), "{text}");
    }
}
