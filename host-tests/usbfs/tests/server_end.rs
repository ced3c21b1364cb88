//! The bus ends before its clients.

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use common::{Bench, new_bus};
use usbfs_shim::AttachError;

#[test]
fn a_program_sees_no_device() {
    let bench = Bench::loopback("end");
    let attached = bench.attach(new_bus());
    let test = std::env::current_exe().unwrap();
    let examples = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    for _ in 0..3 {
        let server = usbfs_shim::serve().unwrap();
        assert!(matches!(usbfs_shim::serve(), Err(AttachError::Served)), "one server for a bus");
        let mut command = server.command(examples.join("rusb_program")).unwrap();
        command.arg("hang").args([attached.bus().to_string(), attached.address().to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "reading");
        while bench.pending() == 0 {
            thread::yield_now();
        }
        drop(server);
        assert_eq!(lines.next().unwrap().unwrap(), "Err(NoDevice)");
        assert_eq!(lines.next().unwrap().unwrap(), "Err(NoDevice)");
        child.wait().unwrap();
        while bench.pending() > 0 {
            thread::yield_now();
        }
    }
}
