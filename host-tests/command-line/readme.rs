//! The README's transcripts are what the program prints.

#[test]
fn transcripts_are_real() {
    trycmd::TestCases::new().case("README.md").register_bin("poolproof", trycmd::cargo::cargo_bin("poolproof"));
}
