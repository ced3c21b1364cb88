//! The recorded session, as the program prints it.

use super::{poolproof, stdout};

/// The record of a working pool (times left out, as they are the record's own kernel's).
const RECORD: &[&str] = &[
    "usb 5-1.3: New USB device found, idVendor=18d1, idProduct=d00d, bcdDevice= 1.00",
    "usb 5-1.3: New USB device strings: Mfr=1, Product=2, SerialNumber=3",
    "usb 5-1.3: Product: Android",
    "usb 5-1.3: Manufacturer: Google",
    "usb 5-1.3: SerialNumber: 0123abcd",
    "usb 5-1.3: USB disconnect, device number 91",
    "usb 5-1.3: new full-speed USB device number 92 using xhci_hcd",
    "usb 5-1.3: not running at top speed; connect to a high speed hub",
    "usb 5-1.3: New USB device found, idVendor=0525, idProduct=a4a2, bcdDevice= 6.02",
    "usb 5-1.3: New USB device strings: Mfr=1, Product=2, SerialNumber=0",
    "usb 5-1.3: Product: RNDIS/Ethernet Gadget",
    "usb 5-1.3: Manufacturer: Linux 6.2.0-rc4 with ci_hdrc_msm",
];
/// The record's last line, up to the MAC address.
const REGISTERED: &str =
    "cdc_ether 5-1.3:1.0 usb0: register 'cdc_ether' at usb-0000:31:00.3-1.3, CDC Ethernet Device, ";

/// The lines of the host's log: seconds and text.
fn log(text: &str) -> Vec<(f64, String)> {
    let line = |line: &str| {
        let (time, text) = line.strip_prefix('[')?.split_once("] ")?;
        Some((time.trim().parse().ok()?, text.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn run(pool: &str) -> (Option<i32>, Vec<(f64, String)>) {
    let output = poolproof(&["run", "bootloader-to-ethernet", "--pool", pool, "--port", "5-1.3", "--speed", "full"]);
    (output.status.code(), log(&stdout(&output)))
}

#[test]
fn a_working_pool_gives_the_recorded_lines() {
    let (status, log) = run("linked");
    assert_eq!(status, Some(0));
    // The record begins at the boot loader's announcement; what a log has before it was not recorded.
    let begin = log.iter().position(|(_, text)| text == RECORD[0]).expect("the boot loader is announced");
    let texts: Vec<&str> = log[begin..].iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[..RECORD.len()], *RECORD);
    assert!(texts[RECORD.len()].starts_with(REGISTERED), "{}", texts[RECORD.len()]);
    assert_eq!(texts.len(), RECORD.len() + 1, "nothing more: {texts:?}");
}

#[test]
fn a_working_pool_keeps_the_recorded_times() {
    let (_, log) = run("linked");
    let at = |text: &str| log.iter().find(|(_, line)| line.contains(text)).map(|&(at, _)| at).expect("in the log");
    for (text, recorded) in [
        ("idProduct=d00d", 128750.41),
        ("USB disconnect", 128764.04),
        ("number 92", 128788.31),
        ("idProduct=a4a2", 128788.43),
        ("cdc_ether", 128788.49),
    ] {
        // The record's timers have slack, and its transfers take time: up to a tenth of a second in each enumeration.
        assert!((at(text) - recorded).abs() < 0.15, "{text}: {} against {recorded}", at(text));
    }
}

#[test]
fn the_broken_pool_gives_the_recorded_lines_and_intervals() {
    let (status, log) = run("linked-descending");
    assert_eq!(status, Some(1));
    let new = log.iter().position(|(_, text)| text.contains("number 92 using xhci_hcd")).expect("Linux is seen");
    let error = "usb 5-1.3: device descriptor read/64, error -110";
    assert_eq!([log[new + 1].1.as_str(), log[new + 2].1.as_str()], [error, error]);
    let (first, second) = (log[new + 1].0 - log[new].0, log[new + 2].0 - log[new + 1].0);
    assert!((first - 15.06).abs() < 0.005, "{first}");
    assert!((second - 15.16).abs() < 0.005, "{second}");
    // The record's kernel adds its timer slack.
    for (ours, recorded) in [(first, 128525.81 - 128510.30), (second, 128541.38 - 128525.81)] {
        assert!((ours / recorded - 1.0).abs() < 0.04, "{ours} against {recorded}");
    }
}

#[test]
fn two_runs_print_the_same_trace() {
    let trace = || stdout(&poolproof(&["run", "bootloader-to-ethernet", "--trace"]));
    let (first, second) = (trace(), trace());
    assert!(first.lines().count() > 1000, "a trace of every access");
    assert!(first == second, "two runs, one trace");
}
