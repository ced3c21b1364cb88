//! Snapshots of this test, in `qemu/tests/snapshots`.

/// Compares with the snapshot `name`.
pub(crate) fn assert(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(format!("differential_{name}"), text));
}
