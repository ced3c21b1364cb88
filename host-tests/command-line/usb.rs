//! `poolproof usb`: unmodified programs of the distribution see a simulated board.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{poolproof, stderr, stdout};

/// Runs a program of the distribution with a board on its bus. Where it is not installed the test says what to install
/// and passes, but not on CI.
#[allow(clippy::print_stdout, reason = "the harness shows it with the test that was not run")]
fn with_board(options: &[&str], program: &str, package: &str, arguments: &[&str]) -> Option<Output> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program));
    if !found.any(|path| path.exists()) {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed: install Debian's package {package}");
        // Whoever runs the tests must know what was not tested.
        println!("not tested: {program} is not installed. Install Debian's package {package}.");
        return None;
    }
    let output = poolproof(&[&["usb"], options, &["--", program], arguments].concat());
    Some(output)
}

#[test]
fn lsusb_shows_the_recorded_descriptors() {
    let Some(output) = with_board(&["--speed", "full"], "lsusb", "usbutils", &["-v", "-d", "0525:a4a2"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let words: Vec<String> =
        stdout(&output).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    // The record's first configuration, as lsusb prints its bytes.
    let record = [
        "wTotalLength 0x004b",
        "bNumInterfaces 2",
        "bConfigurationValue 2",
        "bmAttributes 0xc0",
        "bFunctionClass 2",
        "bFunctionSubClass 6",
        "bInterfaceProtocol 255",
        "bcdCDC 1.10",
        "bDataInterface 1",
        "bSlaveInterface 1",
        "bEndpointAddress 0x82 EP 2 IN",
        "wMaxPacketSize 0x0008 1x 8 bytes",
        "bInterval 32",
        "bEndpointAddress 0x81 EP 1 IN",
        "wMaxPacketSize 0x0040 1x 64 bytes",
        "bEndpointAddress 0x01 EP 1 OUT",
    ];
    let mut lines = words.iter();
    for wanted in record {
        assert!(lines.any(|line| line.starts_with(wanted)), "{wanted} is missing or out of order: {words:#?}");
    }
    for text in
        ["idProduct 0xa4a2", "iManufacturer 1 Linux 6.2.0-rc4 with ci_hdrc_msm", "iProduct 2 RNDIS/Ethernet Gadget"]
    {
        assert!(words.iter().any(|line| line.starts_with(text)), "{text} is missing: {words:#?}");
    }
}

#[test]
fn lsusb_shows_the_tree() {
    let Some(output) = with_board(&["--port", "2-3.4"], "lsusb", "usbutils", &["-t"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for line in ["Class=root_hub", "Port 3: Dev 127", "Port 4: Dev 3"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn fastboot_talks_and_flashes() {
    let fastboot = |arguments: &[&str]| with_board(&["--gadget", "fastboot"], "fastboot", "fastboot", arguments);
    let Some(output) = fastboot(&["getvar", "product"]) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("product: msm8916"), "{}", stderr(&output));
    let image = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("image-{}", std::process::id()));
    std::fs::write(&image, vec![0x5a; 3_000_000]).expect("the image is written");
    let output = fastboot(&["flash", "boot", image.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(&image).expect("the image is removed");
    let output = output.expect("fastboot was there");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("Writing 'boot'"), "{}", stderr(&output));
}

#[test]
fn with_the_pool_of_2023_the_command_runs_without_a_device_and_the_log_says_why() {
    let output = poolproof(&["usb", "--pool", "linked-descending", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "the command's own status");
    let text = stderr(&output);
    assert!(text.contains("the host sees no device"), "{text}");
    assert!(text.contains("usb 5-1.3: device descriptor read/64, error -110"), "{text}");
}

#[test]
fn nothing_is_left_behind() {
    let show = r#"echo "$USBFS_SHIM_ROOT"; test -d "$USBFS_SHIM_ROOT""#;
    let output = poolproof(&["usb", "--", "sh", "-c", show]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let root = stdout(&output);
    assert!(!root.trim().is_empty());
    assert!(!std::path::Path::new(root.trim()).exists(), "{root}");
    // And when it is told to end.
    let mut command = Command::new(env!("CARGO_BIN_EXE_poolproof"));
    let child = command.args(["usb", "--", "sh", "-c", r#"echo "$USBFS_SHIM_ROOT"; exec sleep 1000"#]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut root = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut root).expect("the folder's name");
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill is there");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(128 + 15), "the command got the signal");
    assert!(!std::path::Path::new(root.trim()).exists(), "{root}");
}

/// A program that does not get the bus would see the machine's own.
#[test]
fn without_its_library_nothing_is_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_poolproof"));
    let output = command.args(["usb", "--", "echo", "started"]).env("USBFS_SHIM_LIBRARY", "/nowhere").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("USBFS_SHIM_LIBRARY"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_is_129() {
    for (arguments, expected) in [
        (&["usb"][..], "required"),
        (&["usb", "--", "no-such-program"], "cannot start \"no-such-program\""),
        (&["usb", "--pool", "linkd", "--", "true"], "Did you mean `linked`?"),
        (&["usb", "--gadget", "toaster", "--", "true"], "[possible values: ethernet, fastboot, source-sink]"),
        (&["usb", "--port", "x", "--", "true"], "5-1.3"),
    ] {
        let output = poolproof(arguments);
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
