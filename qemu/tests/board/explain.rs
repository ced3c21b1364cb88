//! What a kernel's driver shows, explained, and held against what the driver in this repository shows.

use qemu::{DriverFiles, Glue};
use scenarios::Bench;
use scenarios::explain::{Source, Verdict, explain};
use usb::Speed;

use crate::common::{KERNELS, ensure, with_board};

/// Each line without the value of its words.
fn shapes(text: &str) -> Vec<String> {
    let shape = |line: &str| {
        let tokens = line.split(' ').map(|token| match token.rsplit_once('=') {
            Some((name, value)) if value.len() == 8 => format!("{name}=X"),
            _ if token.len() == 8 => "X".to_owned(),
            _ => token.to_owned(),
        });
        tokens.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(shape).collect()
}

/// A kernel's driver, and this repository's in the bench, with as many endpoints.
fn compare(kernel: &str, glue: Glue, endpoints: u8) {
    let run = Bench::new().endpoints(endpoints).speed(Speed::High).debugfs(true).run("ecm").expect("a bench");
    with_board(
        kernel,
        |config| (config.glue, config.endpoints) = (glue, endpoints),
        |board, _| {
            let files = DriverFiles::of(board)?;
            let sources: Vec<_> = files.files.iter().map(|(name, text)| Source { name, text }).collect();
            let explanation = explain(&sources).map_err(|nothing| qemu::BoardError::Data(nothing.to_string()))?;
            ensure(explanation.verdict() == Verdict::NoFailureFound, || explanation.to_string())?;
            ensure(explanation.gaps.is_empty(), || explanation.to_string())?;
            for ours in run.debugfs.iter().filter(|file| file.name != "requests") {
                let (_, kernels) = files.files.iter().find(|(name, _)| *name == ours.name).expect("one of the files");
                let (ours, kernels) = (shapes(&ours.text), shapes(kernels));
                ensure(ours == kernels, || format!("{ours:#?}\nthe kernel: {kernels:#?}"))?;
            }
            Ok(())
        },
    );
}

#[test]
#[ignore = "needs qemu/setup: run qemu/test"]
fn smoke_explain_on_the_newest_kernel() {
    compare("newest", Glue::Pci, 8);
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn explain_on_every_kernel() {
    for kernel in KERNELS {
        for glue in [Glue::Msm, Glue::Pci] {
            compare(kernel, glue, 16);
        }
    }
}
