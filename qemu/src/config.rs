//! What a board is.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bus::Trace;
use scenarios::{Glue, PortPath, Speed};
use usb_host::HostConfig;

use crate::cache::Kernel;

/// What a board is.
#[derive(Clone, Debug)]
pub struct BoardConfig {
    /// The kernel.
    pub kernel: Kernel,
    /// Linux's glue driver for the controller.
    pub glue: Glue,
    /// What the board's user land makes the gadget of: `ether`, `source-sink`, `serial`, `mass-storage`, several with
    /// commas between, or `none`.
    pub gadget: String,
    /// Further words of the kernel's command line.
    pub append: String,
    /// The fastest speed of the host's port.
    pub speed: Speed,
    /// Endpoint numbers of the controller, 2 to 16.
    pub endpoints: u8,
    /// The configuration that the host selects instead of the one that Linux would.
    pub configuration: Option<u8>,
    /// The host's port.
    pub port: PortPath,
    /// Where every register access, memory access and packet of the controller goes: [`crate::Record::sink`], for example.
    pub trace: Trace,
    /// Whether the kernel logs what its DMA pools do, for [`crate::Board::observed`]. It needs kprobe events, as Debian's
    /// kernels have them.
    pub observe: bool,
    /// Whether the board's console is this process's terminal, with a shell.
    pub shell: bool,
    /// How long each step may take before it counts as failed. An emulated processor is slow, a busy machine slower.
    pub patience: Duration,
    /// A signal that came: what waits ends by it.
    pub signal: Arc<AtomicUsize>,
}

impl BoardConfig {
    /// A board with `kernel` and its Ethernet gadget, by the msm glue, with 16 endpoints at a high-speed port.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            glue: Glue::Msm,
            gadget: "ether".to_owned(),
            append: String::new(),
            speed: Speed::High,
            endpoints: 16,
            configuration: None,
            port: HostConfig::default().port,
            trace: Trace::off(),
            observe: false,
            shell: false,
            patience: Duration::from_secs(120),
            signal: Arc::default(),
        }
    }

    /// The kernel's command line.
    pub(crate) fn command_line(&self) -> String {
        let observe = if self.observe { " poolproof.observe" } else { "" };
        let shell = if self.shell { " poolproof.shell" } else { "" };
        let line = format!(
            "console=ttyAMA0 poolproof.glue={} poolproof.gadget={}{observe}{shell} {}",
            self.glue.name(),
            self.gadget,
            self.append
        );
        line.trim_end().to_owned()
    }
}
