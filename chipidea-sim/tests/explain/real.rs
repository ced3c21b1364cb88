//! Real dumps as they are.

use chipidea_sim::explain::{Source, Verdict, explain};

use super::{DESCENDING, GOOD, board, explained};

#[test]
fn boards_that_work() {
    for name in GOOD {
        let explanation = explained(&board(name)).expect("files of a board");
        assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{name}\n{explanation}");
        insta::assert_snapshot!(name, explanation.to_string());
    }
}

#[test]
fn boards_with_the_order_of_2023() {
    for name in DESCENDING {
        let explanation = explained(&board(name)).expect("files of a board");
        assert_eq!(explanation.verdict(), Verdict::ClientAssumptionViolated, "{name}\n{explanation}");
        insta::assert_snapshot!(name, explanation.to_string());
    }
}

#[test]
fn qheads_alone_names_the_order_of_2023() {
    for name in DESCENDING {
        let [(_, log)] = &board(name)[..] else { panic!("one log") };
        let qheads: Vec<&str> = log.lines().filter(|line| line.contains("qheads | ")).collect();
        let text = qheads.join("\n");
        let explanation = explain(&[Source { name: "-", text: &text }]).expect("a dump");
        assert_eq!(explanation.verdict(), Verdict::ClientAssumptionViolated);
        let wrong: Vec<_> = explanation.wrong().map(|statement| statement.text.as_str()).collect();
        assert!(wrong[0].starts_with("endpoint 0 RX is not 2 KiB aligned: the controller will use 0x41"), "{wrong:#?}");
        assert!(wrong[1].starts_with("the dQHs descend"), "{wrong:#?}");
        assert!(wrong[2].contains("da9619a30e73"), "{wrong:#?}");
        assert_eq!(wrong[0].contains("as slot 0, which is ep15 TX"), name.contains("16"), "{wrong:#?}");
    }
}

/// The addresses are what counts: neither words nor other files are needed.
#[test]
fn the_lines_of_addresses_are_enough() {
    let [(_, log)] = &board(DESCENDING[0])[..] else { panic!("one log") };
    let text: String = log.lines().filter(|line| line.contains("EP=")).map(|line| format!("{line}\n")).collect();
    let explanation = explain(&[Source { name: "-", text: &text }]).expect("addresses");
    let wrong: Vec<_> = explanation.wrong().map(|statement| statement.text.as_str()).collect();
    assert!(wrong.iter().any(|text| text.contains("January 2023")), "{wrong:#?}");
}

#[test]
fn one_text_says_what_its_files_say() {
    for name in GOOD {
        let files = board(name);
        let together = explained(&files).expect("files");
        let text: String = files.iter().map(|(_, text)| text.as_str()).collect();
        let one = explain(&[Source { name: "-", text: &text }]).expect("a text");
        assert_eq!(one.verdict(), together.verdict());
        let table = |explanation: &chipidea_sim::explain::Explanation| explanation.sections[0].to_string();
        assert_eq!(table(&one), table(&together));
    }
}

/// What `grep -r ''` in the board's folder prints, and a log whose reader puts a time before each line.
#[test]
fn what_stands_before_a_line_does_not_matter() {
    for before in [
        "qheads:",
        "ci_hdrc.0/qheads:",
        "[   14.315918] ",
        "Nov 30 21:32:11 board kernel: [   14.3][  T1] poolproof: qheads | ",
    ] {
        let files = board("6.1-msm");
        let plain = explained(&files).expect("files");
        let mut prefixed = files.clone();
        for (name, text) in &mut prefixed {
            if name != "role" {
                *text = text.lines().map(|line| format!("{before}{line}\r\n")).collect();
            }
        }
        let explanation = explained(&prefixed).expect("files");
        let sections = |explanation: &chipidea_sim::explain::Explanation| {
            let texts = explanation.statements().map(|statement| statement.text.clone());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(sections(&explanation), sections(&plain), "{before}");
    }
}

#[test]
fn of_several_dumps_the_last_counts() {
    let [(_, bad)] = &board(DESCENDING[1])[..] else { panic!("one log") };
    let good = board("7.3-pci-8-endpoints");
    let good: String = good.iter().map(|(_, text)| text.as_str()).collect();
    let verdict = |text: &str| explain(&[Source { name: "-", text }]).expect("a dump").verdict();
    assert_eq!(verdict(&format!("{bad}{good}")), Verdict::NoFailureFound);
    assert_eq!(verdict(&format!("{good}{bad}")), Verdict::ClientAssumptionViolated);
}

#[test]
fn a_text_without_a_board_says_how_to_get_one() {
    for text in
        ["", "\n\n", "hello\n", "EP=\n", "usb 5-1.3: device descriptor read/64, error -110\n 0000:    00000000\n"]
    {
        let nothing = explain(&[Source { name: "-", text }]).expect_err("nothing");
        assert!(nothing.to_string().contains("/sys/kernel/debug/usb/ci_hdrc.0"), "{nothing}");
        assert!(nothing.to_string().contains("events/chipidea/enable"), "{nothing}");
    }
    let nothing = explain(&[Source { name: "-", text: "\u{1b}[31mred\nb\n" }]).expect_err("nothing");
    assert!(nothing.to_string().contains(r"`\u{1b}[31mred`"), "{nothing}");
}
