//! Real dumps with one thing changed, each as a board with that fault would print it.

use chipidea_sim::explain::{Explanation, Verdict};

use super::{board, explained};

/// The files of a board that works, with `change` made in one of them.
#[track_caller]
fn changed(file: &str, from: &str, to: &str) -> Explanation {
    with(&[(file, from, to)])
}

#[track_caller]
fn with(changes: &[(&str, &str, &str)]) -> Explanation {
    let mut files = board("6.1-msm");
    for (file, from, to) in changes {
        let (_, text) = files.iter_mut().find(|(name, _)| name == file).expect("one of the files");
        assert!(text.contains(from), "{file} has no {from:?}");
        *text = text.replacen(from, to, 1);
    }
    explained(&files).expect("files of a board")
}

/// Adds a line to `registers`.
fn register(line: &str) -> Explanation {
    with(&[("registers", "USBINTR reg", &format!("{line}\nUSBINTR reg"))])
}

#[track_caller]
fn is_wrong(explanation: &Explanation, verdict: Verdict, text: &str) {
    assert_eq!(explanation.verdict(), verdict, "{explanation}");
    assert!(explanation.wrong().any(|statement| statement.text.contains(text)), "{text:?} is not in\n{explanation}");
}

#[track_caller]
fn is_odd(explanation: &Explanation, text: &str) {
    assert_eq!(explanation.verdict(), Verdict::NoFailureFound, "{explanation}");
    assert!(
        explanation.statements().any(|statement| statement.text.contains(text)),
        "{text:?} is not in\n{explanation}"
    );
}

/// ep2 TX of that board: dTD 484DF040 is queued and in the overlay.
const HEAD: &str = " 0001:    00000000    484DF040\n 0002:    00000000    00000001\n 0003:    00000000    00088080";

#[test]
fn a_prime_that_was_lost() {
    let before = " 0001:    00000000    484DF100\n 0002:    00000000    484DF040\n 0003:    00000000    00008000";
    is_wrong(
        &changed("qheads", HEAD, before),
        Verdict::FailureFound,
        "names dTD 0x484df040 as the next, and its overlay is not ACTIVE",
    );
    is_wrong(
        &register("ENDPTSTAT reg: 00000000"),
        Verdict::FailureFound,
        "ep2 TX's dTD 0x484df040 is ACTIVE and its bit of ENDPTSTAT is 0",
    );
    // That board's endpoint is primed: bit 18.
    is_odd(&register("ENDPTSTAT reg: 00040000"), "ENDPTSTAT: ep2 TX");
}

#[test]
fn an_overlay_that_does_not_know_the_list() {
    let idle = " 0001:    00000000    484DF100\n 0002:    00000000    00000001\n 0003:    00000000    00008000";
    is_odd(&changed("qheads", HEAD, idle), "does not know dTD 0x484df040");
    let other = " 0001:    00000000    484DF100\n 0002:    00000000    00000001\n 0003:    00000000    00088080";
    is_odd(&changed("qheads", HEAD, other), "not the same list");
    let further = " 0001:    00000000    484DF040\n 0002:    00000000    484DF200\n 0003:    00000000    00088080";
    is_odd(&changed("qheads", HEAD, further), "goes on to 0x484df200, which is no queued dTD");
}

#[test]
fn transfers_that_failed() {
    for (token, text) in [
        ("00088040", "dTD 0x484df040 has HALTED"),
        ("00088020", "has data buffer error"),
        ("00088008", "has transaction error"),
        ("00088068", "has HALTED, data buffer error, transaction error"),
    ] {
        let line = format!(" 0001:    {token}");
        is_wrong(&changed("requests", " 0001:    00088080", &line), Verdict::FailureFound, text);
        let line = format!(" 0003:    00000000    {token}");
        is_wrong(
            &changed("qheads", " 0003:    00000000    00088080", &line),
            Verdict::FailureFound,
            "ep2 TX's overlay has",
        );
    }
}

#[test]
fn lists_that_do_not_hold_together() {
    let last = changed("requests", " 0000:    00000001", " 0000:    484DF0C0");
    is_wrong(
        &last,
        Verdict::FailureFound,
        "is the last and has no T: the controller goes on to 0x484df0c0, which is nothing that is queued",
    );
    let more = "EP=02: TD=484DF0C0 TX\n 0000:    00000001\n 0001:    00088080\nEP=02: TD=484DF040 TX\n";
    let cut = changed("requests", "EP=02: TD=484DF040 TX\n", more);
    is_wrong(
        &cut,
        Verdict::FailureFound,
        "has T and ends the controller's list; the driver has 0x484df040 behind it, which will never move",
    );
    let elsewhere = changed("requests", "EP=02: TD=484DF040 TX\n", &more.replacen("00000001", "484DF140", 1));
    is_wrong(&elsewhere, Verdict::FailureFound, "leads to 0x484df140; the driver has 0x484df040 behind it");
    let whole = changed("requests", "EP=02: TD=484DF040 TX\n", &more.replacen("00000001", "484DF040", 1));
    assert!(!whole.statements().any(|statement| statement.text.contains("behind it")), "{whole}");
}

#[test]
fn buffers_that_cannot_be() {
    is_odd(&changed("requests", " 0001:    00088080", " 0001:    50008080"), "20480 bytes do not fit into five pages");
    is_odd(
        &changed("requests", " 0002:    48645100", " 0002:    00000000"),
        "page pointer 0 is 0, and 8 bytes reach there",
    );
    // Just what fits: 20480 less the offset of 0x100.
    let fits = changed("requests", " 0001:    00088080", " 0001:    4F008080");
    assert!(!fits.statements().any(|statement| statement.text.contains("do not fit")), "{fits}");
}

#[test]
fn endpoints_that_cannot_work() {
    is_wrong(
        &changed("qheads", "20408000    20408000", "20400000    20408000"),
        Verdict::FailureFound,
        "ep0 RX has no IOS",
    );
    is_wrong(
        &changed("qheads", "20408000    20408000", "20418000    20408000"),
        Verdict::FailureFound,
        "ep0 RX has a max packet of 65 bytes",
    );
    is_wrong(
        &changed("qheads", "    20100000", "    20000000"),
        Verdict::FailureFound,
        "ep2 TX has a max packet of 0 bytes",
    );
    is_wrong(
        &changed("qheads", "    20100000", "    00000000"),
        Verdict::FailureFound,
        "ep2 TX has dTDs, and its endpoint was never enabled",
    );
}

#[test]
fn pools_that_broke_a_promise() {
    let tx = "TX=485E6140";
    is_wrong(
        &changed("qheads", tx, "TX=485E6100"),
        Verdict::PoolContractViolated,
        "ep2 RX and ep2 TX have overlapping dQHs",
    );
    is_wrong(&changed("qheads", tx, "TX=485E6150"), Verdict::PoolContractViolated, "is not aligned to 64 bytes");
    is_wrong(&changed("requests", "TD=484DF040", "TD=485E6140"), Verdict::PoolContractViolated, "lies in ep2 TX's dQH");
    let twice = "EP=00: TD=484DF040 TX\n 0000:    00000001\n 0001:    00008080\nEP=02: TD=484DF040 TX\n";
    let twice = changed("requests", "EP=02: TD=484DF040 TX\n", twice);
    is_wrong(
        &twice,
        Verdict::PoolContractViolated,
        "dTD 0x484df040 is ep0 TX's and ep2 TX's: one block was handed out twice",
    );
    is_wrong(
        &changed("requests", "TD=484DF040", "TD=484DF044"),
        Verdict::PoolContractViolated,
        "is not aligned to 32 bytes",
    );
}

#[test]
fn a_table_with_a_gap() {
    let gap = changed("qheads", "TX=485E6140", "TX=485E8140");
    is_wrong(
        &gap,
        Verdict::ClientAssumptionViolated,
        "the controller looks for ep2 TX (slot 5) 320 bytes above endpoint 0 RX, at 0x485e6140; the driver has it at 0x485e8140",
    );
    assert!(!gap.wrong().any(|statement| statement.text.contains("2023")), "{gap}");
}

#[test]
fn registers_that_contradict() {
    let mode = changed("registers", "USBMODE reg: 0000001a", "USBMODE reg: 0000001b");
    is_wrong(&mode, Verdict::FailureFound, "the controller runs and USBMODE.CM is 3, not 2");
    let deaf = changed("registers", "USBINTR reg: 00000147", "USBINTR reg: 00000146");
    is_wrong(
        &deaf,
        Verdict::FailureFound,
        "the driver hears only of UEI (error), PCI (port change), URI (bus reset), SLI (suspend)",
    );
    is_wrong(
        &changed("registers", "USBSTS reg: 00000000", "USBSTS reg: 00000010"),
        Verdict::FailureFound,
        "SEI: a memory access",
    );
    is_odd(
        &changed("registers", "USBSTS reg: 00000000", "USBSTS reg: 00000041"),
        "UI (transfer), URI (bus reset) is pending and enabled",
    );
    let test = changed("registers", "PORTSC reg: 88000205", "PORTSC reg: 88040205");
    is_wrong(&test, Verdict::FailureFound, "the port is in test mode 4");
    is_odd(&changed("registers", "PORTSC reg: 88000205", "PORTSC reg: 88000285"), "the bus is suspended");
    is_odd(&changed("registers", "PORTSC reg: 88000205", "PORTSC reg: 80000005"), "do not agree on the speed");
    is_odd(&changed("registers", "OTGSC reg: 08000f20", "OTGSC reg: 08000120"), "the pull-up is on without VBUS");
    is_odd(
        &changed("registers", "USBCMD reg: 00010001", "USBCMD reg: 00010000"),
        "VBUS is there and the pull-up is off",
    );
    let unplugged = with(&[
        ("registers", "USBCMD reg: 00010001", "USBCMD reg: 00010000"),
        ("registers", "OTGSC reg: 08000f20", "OTGSC reg: 08001120"),
    ]);
    is_odd(&unplugged, "no VBUS (BSV is 0)");
}

#[test]
fn registers_that_were_added() {
    is_wrong(
        &register("ENDPTSETUPSTAT reg: 00000001"),
        Verdict::FailureFound,
        "the driver has not read a SETUP of ep0 RX",
    );
    is_wrong(
        &register("ENDPTLISTADDR reg: 485e6800"),
        Verdict::FailureFound,
        "has its dQH table at 0x485e6800, and not at 0x485e6000",
    );
    is_odd(&register("ENDPTLISTADDR reg: 485e6000"), "ENDPTLISTADDR: 0x485e6000");
    is_odd(&register("ENDPTCOMPLETE reg: 00010000"), "not yet looked at what is complete on ep0 TX");
    is_odd(&register("ENDPTFLUSH reg: 00000002"), "ENDPTFLUSH is under way on ep1 RX");
    is_odd(&register("ENDPTCTRL2 reg: 00cd0000"), "ENDPTCTRL2: RX disabled, TX interrupt and stalled");
    is_odd(&register("DEVICEADDR reg: 06000000"), "DEVICEADDR: address 3");
    let primed = register("ENDPTSTAT reg: 00040001");
    is_odd(&primed, "ep0 RX is primed by ENDPTSTAT, and its overlay is not ACTIVE");
}

#[test]
fn another_role() {
    let mut files = board("6.1-msm");
    files.retain(|(name, _)| name == "registers");
    files.push(("qheads".to_owned(), "not in gadget mode\n".to_owned()));
    is_wrong(&explained(&files).expect("files"), Verdict::FailureFound, "the controller is in its host role");
    is_wrong(&changed("role", "gadget", "host"), Verdict::FailureFound, "the controller is in its host role");
}

#[test]
fn tracepoints_that_failed() {
    let complete = "td_dma_address: 0x00000000484df040, remaining_size: 0, next: 1, total bytes: 0, status: 0";
    let left = complete.replace("total bytes: 0", "total bytes: 18");
    is_wrong(
        &changed("trace", complete, &left),
        Verdict::FailureFound,
        "ep0in's dTD 0x484df040 came back with 18 bytes that were never sent",
    );
    let halted = complete.replace("status: 0", "status: 40");
    is_wrong(
        &changed("trace", complete, &halted),
        Verdict::FailureFound,
        "ep0in's dTD 0x484df040 came back with HALTED",
    );
    // The driver looks at a dTD that is not done whenever the endpoint has an interrupt.
    let waits = complete.replace("status: 0", "status: 80");
    assert_eq!(changed("trace", complete, &waits).verdict(), Verdict::NoFailureFound);
}
