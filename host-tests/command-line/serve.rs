//! `poolproof serve`: what it prints, and how it ends.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{heedful, poolproof, stderr};

/// A folder of this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn start(arguments: &[&str], socket: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = heedful(env!("CARGO_BIN_EXE_poolproof"));
    let command = command.args(["serve", "chipidea", "--socket"]).arg(socket).args(arguments).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, out)
}

/// Lines up to the one that begins with `last`.
fn lines_to(out: &mut BufReader<ChildStdout>, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.starts_with(last)) {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).expect("UTF-8"), 0, "the end before {last}: {lines:#?}");
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn ends_by(mut child: Child, signal: &str, status: i32) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(status), "{signal}");
}

#[test]
fn the_arguments_for_qemu_are_printed_and_a_signal_ends_it() {
    let folder = folder("arguments");
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 130)] {
        let socket = folder.join("board.sock");
        let (child, mut out) = start(&[], &socket);
        let text = lines_to(&mut out, "  vng").join("\n");
        for part in [
            "qemu-system-aarch64 -M virt,gic-version=2",
            "qemu-system-x86_64 -M q35",
            "vng --memory 1G --numa 1G --qemu-opts=",
            "-object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem",
            &format!(r#""path":"{}""#, socket.display()),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(socket.exists());
        ends_by(child, signal, status);
        assert!(!socket.exists(), "nothing is left behind");
    }
    std::fs::remove_dir(&folder).expect("and nothing else");
}

#[test]
fn the_msm_glue_has_its_own_arguments() {
    let folder = folder("msm");
    let (child, mut out) = start(&["--glue", "msm", "--endpoints", "8"], &folder.join("board.sock"));
    let text = lines_to(&mut out, "    -dtb").join("\n");
    assert!(text.contains("qcom,ci-hdrc") && !text.contains("q35"), "{text}");
    ends_by(child, "INT", 130);
    std::fs::remove_dir(&folder).expect("nothing is left");
}

#[test]
fn a_client_that_talks_nonsense_is_reported_and_the_next_is_served() {
    let folder = folder("nonsense");
    let socket = folder.join("board.sock");
    let (child, mut out) = start(&[], &socket);
    lines_to(&mut out, "  vng");
    for _ in 0..2 {
        let client = UnixStream::connect(&socket).expect("it listens");
        std::io::Write::write_all(&mut &client, &[0; 16]).expect("sent");
        let lines = lines_to(&mut out, "vfio-user:");
        assert_eq!(
            lines,
            ["vfio-user: a client cannot be served: malformed message: message size 0: expected 16 to 1052672"]
        );
    }
    ends_by(child, "INT", 130);
    std::fs::remove_dir(&folder).expect("nothing is left");
}

#[test]
fn wrong_usage_is_129() {
    let folder = folder("usage");
    let letter = folder.join("letter");
    std::fs::write(&letter, "dear").expect("a file");
    let letter = letter.to_str().expect("a path in UTF-8");
    let nowhere = folder.join("nowhere/board.sock");
    let nowhere = nowhere.to_str().expect("a path in UTF-8");
    for (arguments, expected) in [
        (&["serve"][..], "required"),
        (&["serve", "chipidea"], "--socket"),
        (&["serve", "toaster", "--socket", "x"], "[possible values: chipidea]"),
        (&["serve", "chipidea", "--socket", "x", "--glue", "isa"], "[possible values: pci, msm]"),
        (&["serve", "chipidea", "--socket", "x", "--endpoints", "17"], "17 is not in 2..=16"),
        (&["serve", "chipidea", "--socket", "x", "--port", "5"], "5-1.3"),
        (&["serve", "chipidea", "--socket", letter], "exists and is not a socket"),
        (&["serve", "chipidea", "--socket", nowhere], "No such file or directory"),
    ] {
        let output = poolproof(arguments);
        assert_eq!(output.status.code(), Some(129), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(letter).expect("still there"), b"dear");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_socket_in_use_is_refused() {
    let folder = folder("use");
    let socket = folder.join("board.sock");
    let (child, mut out) = start(&[], &socket);
    lines_to(&mut out, "  vng");
    let output = poolproof(&["serve", "chipidea", "--socket", socket.to_str().expect("a path in UTF-8")]);
    assert_eq!(output.status.code(), Some(129), "{}", stderr(&output));
    assert!(stderr(&output).contains("another process listens on this socket"), "{}", stderr(&output));
    ends_by(child, "INT", 130);
    std::fs::remove_dir(&folder).expect("nothing is left");
}
