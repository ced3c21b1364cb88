//! Partial and garbled input.

use chipidea_sim::explain::{Source, Verdict, explain};
use proptest::prelude::*;
use proptest::sample::Index;

use super::{DESCENDING, GOOD, board, explained};

fn all_texts() -> Vec<String> {
    let names = GOOD.iter().chain(&DESCENDING);
    names.map(|name| board(name).into_iter().map(|(_, text)| text).collect()).collect()
}

#[test]
fn damaged_lines_are_counted_and_the_first_is_shown() {
    let text = "EP=00: RX=80000000 TX=80000040\n 0000:    2040?000    20408000\n 0001:    0000\nEP=01: RX=8000\n 0000:    00000000    \
                00000000\nUSBCMD reg: 0001000\n";
    let explanation = explain(&[Source { name: "-", text }]).expect("something can be said");
    assert_eq!(explanation.gaps[0], "4 lines cannot be read; the first: `0000:    2040?000    20408000`");
    assert!(explanation.gaps.iter().any(|gap| gap == "2 of 2 dQHs have less than 12 words"), "{:#?}", explanation.gaps);
}

/// Words without their first line are nobody's.
#[test]
fn a_lost_first_line_gives_its_words_to_no_other() {
    let mut files = board("6.12-msm");
    for (name, text) in &mut files {
        if name == "qheads" {
            *text = text.lines().filter(|line| !line.starts_with("EP=01")).map(|line| format!("{line}\n")).collect();
        }
    }
    let whole = explained(&board("6.12-msm")).expect("files").sections[1].statements[0].text.clone();
    let explanation = explained(&files).expect("files");
    assert_eq!(explanation.sections[1].statements[0].text, whole);
    assert!(explanation.gaps.iter().any(|gap| gap == "of 16 endpoint numbers 15 are there"), "{:#?}", explanation.gaps);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A board that works does not become a broken one by lines that are missing.
    #[test]
    fn lost_lines_are_no_failure(which in any::<Index>(), lost in prop::collection::vec(any::<Index>(), 1..40)) {
        let mut files = board(GOOD[which.index(GOOD.len())]);
        for index in lost {
            let file = index.index(files.len());
            let lines: Vec<&str> = files[file].1.lines().collect();
            if !lines.is_empty() {
                let at = index.index(lines.len());
                let rest = lines.iter().enumerate().filter(|(position, _)| *position != at);
                files[file].1 = rest.map(|(_, line)| format!("{line}\n")).collect();
            }
        }
        if let Ok(explanation) = explained(&files) {
            prop_assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{}", explanation);
        }
    }

    /// Nor by an end that is missing.
    #[test]
    fn a_cut_text_is_no_failure(which in any::<Index>(), cut in any::<Index>()) {
        let mut files = board(GOOD[which.index(GOOD.len())]);
        let file = cut.index(files.len());
        let length = cut.index(files[file].1.len() + 1);
        files[file].1.truncate(length);
        if let Ok(explanation) = explained(&files) {
            prop_assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{}", explanation);
        }
    }

    /// Whatever is done to a text, there is an answer, and each of its statements has evidence.
    #[test]
    fn there_is_always_an_answer(
        which in any::<Index>(),
        hits in prop::collection::vec((any::<Index>(), prop_oneof![Just(b'\n'), Just(b' '), Just(b':'), any::<u8>(), b'0'..=b'9', b'A'..=b'F']), 0..200),
        swapped in prop::collection::vec((any::<Index>(), any::<Index>()), 0..20),
    ) {
        let text = which.get(&all_texts()).clone();
        let mut lines: Vec<&str> = text.lines().collect();
        for (one, other) in swapped {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
        let mut bytes = lines.join("\n").into_bytes();
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(explanation) = explain(&[Source { name: "-", text: &text }]) {
            prop_assert!(!explanation.to_string().is_empty());
            prop_assert!(explanation.statements().all(|statement| !statement.evidence.is_empty() && !statement.text.is_empty()));
        }
    }

    /// Also to one that never was a board's.
    #[test]
    fn no_text_is_too_strange(text in "(EP=[0-9]{0,3}: ?(RX|TD|TX)=[0-9A-F]{0,9} ?|0000: |000B: | reg: |USBCMD|ci_prepare_td: |status: |[0-9A-F]{8}|\\PC|\n){0,60}") {
        let _ = explain(&[Source { name: "requests", text: &text }]).map(|explanation| explanation.to_string());
    }
}
