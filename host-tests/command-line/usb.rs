//! `poolproof usb`: unmodified programs of the distribution see a simulated board.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{heedful, poolproof, stderr, stdout};

/// Whether a program of the distribution is there. Where it is not, its test says what to install and passes, but not on
/// CI.
#[allow(clippy::print_stdout, reason = "the harness shows it with the test that was not run")]
pub(super) fn is_there(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program));
    let there = found.any(|path| path.exists());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed: install Debian's package {package}");
        // Whoever runs the tests must know what was not tested.
        println!("not tested: {program} is not installed. Install Debian's package {package}.");
    }
    there
}

/// Runs a program of the distribution with a board on its bus, if it is there.
fn with_board(options: &[&str], program: &str, package: &str, arguments: &[&str]) -> Option<Output> {
    is_there(program, package).then(|| poolproof(&[&["usb"], options, &["--", program], arguments].concat()))
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
    let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("image-{}", std::process::id()));
    std::fs::write(&image, vec![0x5a; 3_000_000]).expect("the image is written");
    let output = fastboot(&["flash", "boot", image.to_str().expect("a path in UTF-8")]);
    std::fs::remove_file(&image).expect("the image is removed");
    let output = output.expect("fastboot was there");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("Writing 'boot'"), "{}", stderr(&output));
}

/// A file of that many zeros.
fn image(name: &str, length: u64) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::File::create(&path).and_then(|file| file.set_len(length)).expect("the image is written");
    path
}

/// Runs a script with the boot loader on its bus; what it prints to standard output and its status. `$1` is a file.
fn in_boot_loader(script: &str, file: &Path) -> (Option<i32>, String, String) {
    let file = file.to_str().expect("a path in UTF-8");
    let output = poolproof(&["usb", "--gadget", "fastboot", "--", "sh", "-c", script, "sh", file]);
    (output.status.code(), stdout(&output), stderr(&output))
}

#[test]
fn fastboot_reboots_and_finds_the_boot_loader_again() {
    if !is_there("fastboot", "fastboot") {
        return;
    }
    for reboot in ["reboot", "reboot bootloader"] {
        let script = format!("fastboot {reboot} && sleep 1 && timeout 20 fastboot getvar product");
        let (status, _, err) = in_boot_loader(&script, Path::new("none"));
        assert_eq!(status, Some(0), "{reboot}: {err}");
        assert!(err.contains("product: msm8916"), "{reboot}: {err}");
    }
}

#[test]
fn fastboot_boots_a_system_that_lsusb_shows() {
    if !is_there("fastboot", "fastboot") || !is_there("lsusb", "usbutils") {
        return;
    }
    let image = image("kernel", 10_000);
    for boot in [r#"boot "$1""#, "continue"] {
        let look = "for _ in 1 2 3 4 5 6 7 8 9 10; do lsusb -d 0525:a4a2 && exit 0; sleep 0.5; done; exit 1";
        let (status, out, err) = in_boot_loader(&format!("fastboot {boot} && {look}"), &image);
        assert_eq!(status, Some(0), "{boot}: {err}");
        assert!(out.contains("0525:a4a2"), "{boot}: {out}");
    }
    std::fs::remove_file(&image).expect("the image is removed");
}

#[test]
fn fastboot_cannot_flash_more_than_the_partition_holds() {
    if !is_there("fastboot", "fastboot") {
        return;
    }
    // More than a download: fastboot makes it sparse.
    let image = image("zeros", 100 << 20);
    let (status, _, err) = in_boot_loader(r#"fastboot flash boot "$1""#, &image);
    std::fs::remove_file(&image).expect("the image is removed");
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("image of 104857600 bytes, partition of 33554432"), "{err}");
}

#[test]
fn with_the_pool_of_2023_the_command_runs_without_a_device_and_the_log_says_why() {
    let output = poolproof(&["usb", "--pool", "linked-descending", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "the command's own status");
    let text = stderr(&output);
    assert!(text.contains("the host sees no device"), "{text}");
    assert!(text.contains("usb 5-1.3: device descriptor read/64, error -110"), "{text}");
    assert!(text.contains("reason: pool ci_hw_qh broke no promise and handed out descending blocks"), "{text}");
    let run = "`poolproof run bootloader-to-ethernet --pool linked-descending --endpoints 16`";
    assert!(text.contains(run), "{text}");
}

#[test]
fn nothing_is_left_behind() {
    let show = r#"echo "$USBFS_SHIM_ROOT"; test -d "$USBFS_SHIM_ROOT""#;
    let output = poolproof(&["usb", "--", "sh", "-c", show]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let root = stdout(&output);
    assert!(!root.trim().is_empty());
    assert!(!Path::new(root.trim()).exists(), "{root}");
    // And when it is told to end.
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    let child = command.args(["usb", "--", "sh", "-c", r#"echo "$USBFS_SHIM_ROOT"; exec sleep 1000"#]);
    let mut child = child.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut root = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut root).expect("the folder's name");
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill is there");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(128 + 15), "the command got the signal");
    assert!(!Path::new(root.trim()).exists(), "{root}");
}

/// A program that does not get the bus would see the machine's own.
#[test]
fn without_its_library_nothing_is_started() {
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    let output = command.args(["usb", "--", "echo", "started"]).env("USBFS_SHIM_LIBRARY", "/nowhere").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("USBFS_SHIM_LIBRARY"), "{}", stderr(&output));
}

/// A Linux kernel drives the controller, an unmodified program is at the other end of its cable.
#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_a_board_in_qemu() {
    let kernel = ["--board", "qemu", "--kernel", "6.1"];
    let Some(output) = with_board(&kernel, "lsusb", "usbutils", &["-v", "-d", "0525:a4a2"]) else {
        return;
    };
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("with ci_hdrc_msm") && text.contains("wTotalLength       0x004b"), "{text}");
}

#[test]
fn without_setup_a_board_in_qemu_says_what_to_run() {
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    let output = command.args(["usb", "--board", "qemu", "--", "true"]).env("POOLPROOF_CACHE", "/nowhere").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("run qemu/setup"), "{}", stderr(&output));
}

/// A program of the assembler's own making: nothing of libc, so nothing takes a preloaded library.
fn static_program(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("static.s"), folder.join("static"));
    std::fs::write(&source, ".globl _start\n_start:\n").expect("the source is written");
    let mut cc = Command::new("cc");
    cc.args(["-static", "-nostdlib", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().expect("a C compiler").success());
    program
}

/// Whoever cannot be shown the bus would see the machine's own.
#[test]
fn what_cannot_see_the_board_is_not_started() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reach-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder is made");
    let program = static_program(&folder);
    let script = folder.join("script");
    std::fs::write(&script, format!("#! {} -x\n", program.display())).expect("the script is written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    for program in [&program, &script] {
        let output = poolproof(&["usb", "--", program.to_str().expect("a path in UTF-8")]);
        assert_eq!(output.status.code(), Some(129), "{program:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("is linked statically"), "{program:?}: {}", stderr(&output));
    }
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

/// What a command has started and does not end by itself.
#[test]
fn a_signal_ends_what_the_command_started_too() {
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    // The inner shell takes no notice of the signal, and its parent ends at once.
    let script = r#"sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' & wait"#;
    let mut child = command.args(["usb", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut pid = String::new();
    stdout.read_line(&mut pid).expect("the inner shell's number");
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid}");
}

/// A line that a running command prints.
fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    line.trim().to_owned()
}

/// As with every program that a shell starts: a key of the terminal signals the whole foreground group.
#[test]
fn an_interrupt_from_the_terminal_is_the_command_s_affair() {
    // After the signal it waits, so that one that is passed on would come too.
    let script = r#"trap "echo got" INT; echo ready; until read line; do :; done; sleep 0.2; echo "end $line"; exit 5"#;
    let mut terminal = heedful("script");
    // A shell that stayed would end by the signal too.
    let run = format!("exec {} usb -- sh -c '{script}'", env!("CARGO_BIN_EXE_poolproof"));
    terminal.env("SHELL", "/bin/sh").args(["-qefc", &run, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().expect("util-linux's script");
    let (mut keys, output) = (terminal.stdin.take().expect("a pipe"), terminal.stdout.take().expect("a pipe"));
    let mut output = BufReader::new(output);
    while line(&mut output) != "ready" {}
    keys.write_all(b"\x03").expect("Ctrl-C is pressed");
    while !line(&mut output).ends_with("got") {}
    keys.write_all(b"line\n").expect("a line is typed");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("the rest");
    assert!(rest.contains("end line") && !rest.contains("got"), "{rest}");
    assert_eq!(terminal.wait().expect("it ends").code(), Some(5));
}

#[test]
fn an_interrupt_from_a_process_goes_on_to_the_command() {
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    let script = r#"trap "exit 3" INT; trap "exit 4" TERM; echo ready; while :; do sleep 0.01; done"#;
    for (signal, status) in [("-INT", 3), ("-QUIT", 4)] {
        let mut child =
            command.args(["usb", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        assert_eq!(line(&mut stdout), "ready");
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
        assert!(killed.success());
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{signal}");
        command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    }
}

/// `x & exec poolproof usb …` in a shell leaves it a child.
#[test]
fn a_signal_does_not_end_what_was_there_before_the_command() {
    let script = r#"sh -c 'echo $$; exec sleep 1000' & exec "$0" usb -- sh -c 'echo ready; exec sleep 1000'"#;
    let mut child = heedful("sh");
    let child = child.args(["-c", script, env!("CARGO_BIN_EXE_poolproof")]).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = [line(&mut stdout), line(&mut stdout)];
    lines.sort();
    let [before, ready] = &lines;
    assert_eq!(ready, "ready");
    let kill = |arguments: &[&str]| Command::new("kill").args(arguments).status().expect("kill is there").success();
    assert!(kill(&[&child.id().to_string()]));
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert!(kill(&[before]), "it still ran");
}

/// As execvp(3) has it.
#[test]
fn a_script_without_its_first_line_is_the_shell_s() {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("script-{}", std::process::id()));
    std::fs::write(&script, "exit $1\n").expect("the script is written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    let output = poolproof(&["usb", "--", script.to_str().expect("a path in UTF-8"), "7"]);
    std::fs::remove_file(&script).expect("the script is removed");
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
}

#[test]
fn nohup_means_it() {
    let script = r#"trap "" HUP; exec "$0" usb -- sh -c 'kill -HUP $PPID; echo alive'"#;
    let output = heedful("sh").args(["-c", script, env!("CARGO_BIN_EXE_poolproof")]).output().expect("it starts");
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "alive\n"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_is_129() {
    for (arguments, expected) in [
        (&["usb"][..], "required"),
        (&["usb", "--", "no-such-program"], "\"no-such-program\" is no program in PATH"),
        (&["usb", "--", "/nowhere/program"], "/nowhere/program: No such file or directory"),
        (&["usb", "--pool", "linkd", "--", "true"], "Did you mean `linked`?"),
        (&["usb", "--gadget", "toaster", "--", "true"], "[possible values: ethernet, fastboot, source-sink]"),
        (
            &["usb", "--port", "x", "--", "true"],
            "like 5-1.3, a bus and one to six ports: bus 1 to 255, one to six ports from 1 to 15",
        ),
        (&["usb", "--port", "5-16", "--", "true"], "5-16: no such place: bus 1 to 255, one to six ports from 1 to 15"),
        (&["usb", "--kernel", "6.1", "--", "true"], "--kernel is for a board with --board qemu"),
        (&["usb", "--board", "qemu", "--pool", "linked", "--", "true"], "a kernel has its own pools"),
        (&["usb", "--board", "qemu", "--gadget", "fastboot", "--", "true"], "is a boot loader's"),
    ] {
        let output = poolproof(arguments);
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
