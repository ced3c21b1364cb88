//! The kernel's own driver: what is said when it cannot be had. That it works is tested by `udc_c` of the scenarios.

use std::fs;

use super::{poolproof, stderr, stdout};

#[test]
fn what_is_missing_is_told_with_its_own_status() {
    let tree = tempfile::tempdir().expect("a folder");
    let udc = tree.path().join("drivers/usb/chipidea");
    fs::create_dir_all(&udc).expect("made");
    let path = tree.path().to_str().expect("UTF-8");
    let check = |arguments: &[&str]| {
        let output = poolproof(&[&["check", "--udc-c"], arguments].concat());
        (output.status.code(), stderr(&output))
    };
    let (status, words) = check(&[path]);
    assert_eq!(status, Some(125), "{words}");
    assert!(words.contains("expected drivers/usb/chipidea/udc.c or a kernel tree with it"), "{words}");
    fs::write(udc.join("udc.c"), "").expect("written");
    if !cfg!(target_arch = "x86_64") {
        assert_eq!(check(&[path]).0, Some(130));
        return;
    }
    let (status, words) = check(&[path]);
    assert_eq!(status, Some(129), "{words}");
    assert!(words.contains("none are named, and the file lies in no tree that was built"), "{words}");
    let (status, words) = check(&[path, "--headers", path]);
    assert_eq!(status, Some(129), "{words}");
    assert!(words.contains("there is no include/generated/autoconf.h"), "{words}");
    // Neither is of any use without the other, nor beside another driver.
    assert_eq!(poolproof(&["check", "--headers", path]).status.code(), Some(129));
    assert_eq!(check(&[path, "--driver", "ci_hdrc"]).0, Some(129));
}

#[test]
fn what_it_does_not_reach_is_listed() {
    let text = stdout(&poolproof(&["list"]));
    let (_, kernels) = text.split_once("what --udc-c does not reach").expect("a section");
    for words in ["descriptor accesses", "debugfs", "short-packets", "dequeue", "setup-abort"] {
        assert!(kernels.contains(&format!("\n  {words} ")), "{words}");
    }
}
