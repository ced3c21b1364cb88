//! QEMU as a process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;

use scenarios::Glue;
use serde_json::json;

use crate::cache::{Cache, Kernel};
use crate::error::BoardError;

/// Memory of the board, as QEMU's `-m` takes it; the device tree was made for it.
const MEMORY: &str = "1G";
/// Its processors, likewise.
const PROCESSORS: &str = "4";

/// A running QEMU. Dropping it ends it.
pub struct Machine {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// What is booted, and how.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'a> {
    /// Kernel and user land.
    pub kernel: &'a Kernel,
    /// The glue, which decides about the device tree.
    pub glue: Glue,
    /// Where the controller is served. A path in UTF-8.
    pub socket: &'a Path,
    /// The kernel's command line.
    pub append: &'a str,
    /// Whether the console is this process's terminal.
    pub interactive: bool,
}

/// QEMU's options for a function that is served at `socket`, for whichever machine. Memory must be shared, or the device
/// does not reach it.
fn device_options(socket: &Path) -> [String; 6] {
    let socket = json!({"type": "unix", "path": socket.display().to_string()});
    let device = json!({"driver": "vfio-user-pci", "addr": "1", "socket": socket}).to_string();
    let memory = format!("memory-backend-memfd,id=mem,size={MEMORY},share=on");
    ["-object", &memory, "-machine", "memory-backend=mem", "-device", &device].map(str::to_owned)
}

impl Machine {
    /// Starts QEMU with the board. Each line of its console goes to `console`, of its error output to `errors`; both end
    /// with `None`. With [`Boot::interactive`] the console is this process's terminal instead.
    ///
    /// To be called on a thread that lives as long as the machine shall: QEMU is killed when that thread ends.
    ///
    /// # Errors
    /// [`BoardError::System`].
    pub fn start(
        cache: &Cache,
        boot: &Boot<'_>,
        console: impl FnMut(Option<String>) + Send + 'static,
        errors: impl FnMut(Option<String>) + Send + 'static,
    ) -> Result<Self, BoardError> {
        let Boot { kernel, glue, socket, append, interactive } = *boot;
        // Whoever starts a machine and is killed must not leave it running: the kernel sees to that, by util-linux.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "SIGKILL", "--"]).arg(cache.qemu());
        command.args(["-M", "virt,gic-version=2", "-cpu", "cortex-a53", "-smp", PROCESSORS, "-m", MEMORY]);
        command.args(["-accel", "tcg,thread=multi", "-nodefaults", "-display", "none"]);
        command.args(device_options(socket));
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&kernel.initramfs).args(["-append", append]);
        if glue == Glue::Msm {
            command.arg("-dtb").arg(cache.device_tree());
        }
        let failed = BoardError::system("QEMU does not start (setpriv is in util-linux)");
        if interactive {
            command.args(["-serial", "mon:stdio"]);
            let child = command.spawn().map_err(failed)?;
            return Ok(Self { child, stdin: None });
        }
        // A key of the terminal is this process's affair.
        command.process_group(0);
        command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let machine = Self { child, stdin };
        read_lines("qemu-console", stdout, console)?;
        read_lines("qemu-errors", stderr, errors)?;
        Ok(machine)
    }

    /// Types a line on the console.
    ///
    /// # Errors
    /// [`BoardError::Qemu`], if nobody reads.
    pub fn type_line(&mut self, line: &str) -> Result<(), BoardError> {
        let typed = self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(format!("{line}\n").as_bytes()));
        typed.map_err(|error| BoardError::Qemu(format!("its console takes no input: {error}")))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// [`BoardError::System`].
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, BoardError> {
        self.child.try_wait().map_err(BoardError::system("QEMU is lost"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands each line to `take`, and at the end `None`.
fn read_lines(
    name: &str,
    from: Option<impl Read + Send + 'static>,
    mut take: impl FnMut(Option<String>) + Send + 'static,
) -> Result<(), BoardError> {
    let Some(from) = from else { return Ok(()) };
    let read = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // A serial console has no encoding, and a line of a machine that goes mad no end.
        while matches!(from.by_ref().take(64 << 10).read_until(b'\n', &mut line), Ok(1..)) {
            take(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            line.clear();
        }
        take(None);
    };
    let spawned: io::Result<_> = thread::Builder::new().name(name.to_owned()).spawn(read);
    spawned.map(drop).map_err(BoardError::system("no thread"))
}
