//! What a driver does, told without addresses and without the times of its interrupts.

mod mock;

use std::sync::Arc;

use bus::Trace;
use chipidea_sim::{Config, Section, Traffic};
use mock::*;
use usb::wire::DataPid::{Data0, Data1};
use usb::wire::Handshake;
use usb::{Speed, UsbPort};

const GET_DESCRIPTOR: [u8; 8] = [0x80, 6, 0, 1, 0, 0, 18, 0];

fn traced() -> (Board, Arc<Traffic>) {
    let traffic = Arc::new(Traffic::new());
    let board = Board::build(Config::default(), Vec::new(), Trace::to(Arc::clone(&traffic) as _));
    (board.started(Speed::High), traffic)
}

/// The lines of the section that begins with `title`.
fn section(traffic: &Traffic, title: &str) -> Vec<String> {
    let found = traffic.sections().into_iter().find(|section| section.title.starts_with(title));
    found.unwrap_or_else(|| panic!("no section {title}")).lines
}

/// A control read whose dTDs and buffer lie somewhere; `late` serves the first interrupt with the second.
fn control_read(board: &Board, first_dtd: u32, buffer: u32, late: bool) {
    assert_eq!(board.setup(GET_DESCRIPTOR), Handshake::Ack);
    board.w(R::Sts, UI);
    board.w(R::Complete, 0);
    board.w(R::SetupStat, 1);
    board.w(R::Cmd, RS | SUTW);
    board.w(R::Cmd, RS);
    let at = board.dtd(first_dtd, buffer, 18, IOC);
    board.prime(1, at);
    board.input(0);
    if !late {
        board.w(R::Sts, UI);
        board.w(R::SetupStat, 0);
    }
    board.w(R::Complete, bit(1));
    let at = board.dtd(first_dtd + 1, 0, 0, IOC);
    for page in 0..5 {
        board.poke(at + 8 + 4 * page, 0);
    }
    board.prime(0, at);
    assert_eq!(board.out(0, Data1, &[]), Handshake::Ack);
    if !late {
        board.w(R::Sts, UI);
        board.w(R::Complete, bit(0));
    }
    // The next SETUP, which the driver takes together with the end of this transfer.
    board.setup([0, 9, 1, 0, 0, 0, 0, 0]);
    board.w(R::Sts, UI);
    if late {
        board.w(R::Complete, bit(0));
    }
    board.w(R::SetupStat, 1);
}

#[test]
fn a_control_transfer_is_told_whenever_its_interrupts_come_and_wherever_its_memory_is() {
    let told = |first_dtd, buffer, late| {
        let (board, traffic) = traced();
        control_read(&board, first_dtd, buffer, late);
        traffic.sections()
    };
    let sections = told(0, BUFFERS, false);
    assert_eq!(sections, told(6, BUFFERS + 0x2340, true));
    let read = sections.iter().find(|section| section.title == "SETUP 80 06 00 01 00 00 12 00").expect("the SETUP");
    assert_eq!(
        read.lines,
        [
            "ENDPTSETUPSTAT = 00000001",
            "USBCMD.SUTW, set and cleared",
            "ENDPTPRIME = ep0 IN",
            "ep0 IN dTD: next T, token 00128080, buffer",
            "ENDPTCOMPLETE = ep0 IN",
            "ENDPTPRIME = ep0 OUT",
            "ep0 OUT dTD: next T, token 00008080, no buffer",
            "ENDPTCOMPLETE = ep0 OUT",
        ]
    );
}

#[test]
fn a_list_is_told_as_the_controller_walks_it() {
    let (board, traffic) = traced();
    board.bulk(1, 512);
    let first = board.dtd(0, BUFFERS, 512, IOC);
    board.dtd(1, BUFFERS + 0x10, 512, IOC);
    board.prime(2, first);
    board.link(0, 1);
    board.w(R::Cmd, RS | ATDTW);
    board.w(R::Cmd, RS);
    board.out(1, Data0, &[1, 2, 3]);
    board.w(R::Complete, bit(2));
    board.out(1, Data1, &[0; 512]);
    board.w(R::Complete, bit(2));
    // The block is used again at once: what a driver that frees one completion late never does.
    let again = board.dtd(1, BUFFERS, 512, IOC);
    board.prime(2, again);
    assert_eq!(
        section(&traffic, "ep1 OUT"),
        [
            "ENDPTPRIME = ep1 OUT",
            "dTD: next T, token 02008080, buffer",
            "dTD retired, token 01fd8000",
            "goes on to the next dTD",
            "another dTD: next T, token 02008080, buffer",
            "ENDPTCOMPLETE = ep1 OUT",
            "ENDPTCOMPLETE = ep1 OUT",
            "ENDPTPRIME = ep1 OUT",
            "dTD again: next T, token 02008080, buffer",
        ]
    );
    assert_eq!(section(&traffic, "after the answers"), ["USBCMD.ATDTW, set and cleared: 1 times"]);
    assert_eq!(section(&traffic, "dQH capabilities"), ["ep1 OUT dQH capabilities = 22000000"]);
}

#[test]
fn a_table_that_is_not_aligned_and_a_buffer_in_pieces_are_told() {
    let (board, traffic) = traced();
    board.w(R::List, HEADS + 0x7c0);
    board.bulk(1, 512);
    board.w(R::List, HEADS);
    let at = board.dtd(0, BUFFERS, 512, IOC);
    board.poke(at + 16, BUFFERS);
    board.prime(3, at);
    let begin = section(&traffic, "power-on");
    assert!(begin.iter().any(|line| line == "ENDPTLISTADDR = 0x7c0 behind a boundary of 2048 bytes"), "{begin:?}");
    assert_eq!(
        section(&traffic, "ep1 IN"),
        ["ENDPTPRIME = ep1 IN", "dTD: next T, token 02008080, buffer of which 2 pages follow each other"]
    );
}

#[test]
fn the_pull_up_falls_at_the_end_when_vbus_is_off() {
    let told = |early| {
        let (board, traffic) = traced();
        board.sim.set_vbus(false);
        if early {
            board.w(R::Cmd, 0);
        }
        board.w(R::Flush, bit(2));
        board.w(R::Flush, bit(2));
        if !early {
            board.w(R::Cmd, 0);
        }
        traffic.sections()
    };
    let sections = told(true);
    assert_eq!(sections, told(false));
    let text = sections.last().map(Section::to_string).unwrap_or_default();
    assert_eq!(text, "VBUS off\n  ENDPTFLUSH = ep1 OUT ×2\n  USBCMD = 00000000\n");
}
