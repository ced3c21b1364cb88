//! Nothing is left behind, however a board ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::PATIENCE;

/// A running `qemu/board` in a folder for temporary files of its own.
struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Started, and come so far that its output has `text`.
    fn until(text: &str, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("leftovers-{}-{name}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        // A job of a shell or of `nohup` ignores some signals and hands that down.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_qemu-board")]);
        command.args(["--kernel", "6.1"]).env("TMPDIR", &folder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("it can be read"), 0, "it ended before it said {text}");
        }
        // A reader that is gone does not stop it; one that does not read would.
        thread::spawn(move || output.lines().for_each(drop));
        Self { child, folder }
    }

    fn kill(&self, signal: &str) {
        let killed = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(killed.expect("kill is there").success());
    }

    /// How it ended, with nothing left behind.
    fn ended(mut self) -> Option<i32> {
        let status = self.child.wait().expect("it ends");
        // What the kernel kills with its parent is gone a moment later.
        let end = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < end, "left running: {:?}", self.processes());
            thread::sleep(Duration::from_millis(20));
        }
        let left: Vec<_> =
            fs::read_dir(&self.folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        fs::remove_dir(&self.folder).expect("the folder goes");
        status.code()
    }

    /// Processes that have our folder in their environment.
    fn processes(&self) -> Vec<PathBuf> {
        let wanted = format!("TMPDIR={}\0", self.folder.display());
        let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        processes
            .filter(|path| {
                let environment = fs::read(path.join("environ")).unwrap_or_default();
                environment.windows(wanted.len()).any(|window| window == wanted.as_bytes())
            })
            .collect()
    }
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_after_a_signal() {
    for (signal, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 130)] {
        let running = Running::until("New USB device found", signal);
        running.kill(signal);
        assert_eq!(running.ended(), Some(status), "{signal}");
    }
    let running = Running::until("a client is connected", "early");
    running.kill("-INT");
    assert_eq!(running.ended(), Some(130));
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_after_a_crash() {
    let running = Running::until("New USB device found", "crash");
    running.kill("-KILL");
    assert_eq!(running.ended(), None);
}
