//! The register window: both maps, widths, write semantics, resets, the glues' registers.

mod mock;

use std::sync::Arc;

use bus::{Mmio, NoIrq, Width};
use chipidea_sim::{Chipidea, Config, Layout};
use devices::{Device, DmaPort};
use mock::*;
use usb::{Speed, UsbPort};
use vm_memory::{GuestAddress, GuestMemoryMmap};

fn configs() -> impl Iterator<Item = Config> {
    [Layout::NonLpm, Layout::Lpm].into_iter().flat_map(|layout| {
        [0, 0x100].into_iter().flat_map(move |cap_offset| {
            [1, 8, 16].into_iter().flat_map(move |endpoints| {
                [(0x1000, true), (0x2000, false)].into_iter().map(move |(window, host_capable)| Config {
                    endpoints,
                    layout,
                    cap_offset,
                    host_capable,
                    window,
                    ..Config::default()
                })
            })
        })
    })
}

fn quiet(config: Config) -> Arc<Chipidea> {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(u64::from(BASE)), 0x10_0000)]).expect("1 MiB");
    Chipidea::new(config, DmaPort::new("chipidea", Arc::new(memory)), Arc::new(NoIrq))
}

#[test]
fn the_table_covers_the_window_and_nothing_twice() {
    for config in configs() {
        let sim = quiet(config.clone());
        let mut owner = vec![None; (config.window / 4) as usize];
        for register in sim.registers() {
            assert_eq!(register.offset % 4, 0, "{}", register.name);
            let (w, clear, command) = (register.write.keep, register.write.clear, register.write.command);
            assert_eq!((w & clear, w & command, clear & command), (0, 0, 0), "{}: one meaning a bit", register.name);
            for word in register.offset / 4..register.offset / 4 + u64::from(register.count) {
                let previous = owner[word as usize].replace(register.name);
                assert_eq!(previous, None, "{} at {:#x} in {config:?}", register.name, 4 * word);
            }
        }
        for (word, name) in owner.iter().enumerate().filter(|(_, name)| name.is_none()) {
            let offset = 4 * word as u64;
            assert_eq!(sim.read32(offset), 0, "{name:?}");
            sim.write32(offset, !0);
            assert_eq!(sim.read32(offset), 0, "{offset:#x}");
        }
    }
}

#[test]
fn every_register_resets_and_takes_writes_as_the_table_says() {
    for config in configs() {
        for (row, register) in quiet(config.clone()).registers().iter().enumerate() {
            for value in [!0, 0x5555_5555, 0xaaaa_aaaa, 0] {
                let sim = quiet(config.clone());
                let register = sim.registers()[row];
                assert_eq!(sim.read32(register.offset), register.reset, "{} in {config:?}", register.name);
                sim.write32(register.offset, value);
                let now = sim.read32(register.offset);
                let expected = register.reset & !register.write.keep & !(value & register.write.clear)
                    | value & register.write.keep;
                // Endpoint 0 keeps its type and is always enabled; USBCMD.RST undoes the rest of its write.
                let free = register.write.command
                    | if register.name == "ENDPTCTRL" { 0x008c_008c } else { 0 }
                    | if register.name == "USBCMD" && value & RST != 0 { !0 } else { 0 };
                assert_eq!(now & !free, expected & !free, "{} = {value:#x}", register.name);
            }
            assert!(register.count >= 1);
        }
    }
}

#[test]
fn the_offsets_are_linuxs_for_both_maps() {
    for (layout, lpm) in [(Layout::NonLpm, false), (Layout::Lpm, true)] {
        for cap_offset in [0, 0x100] {
            let sim = quiet(Config { layout, cap_offset, endpoints: 16, ..Config::default() });
            let cap = u64::from(cap_offset);
            assert_eq!(sim.read32(cap) & 0xff, 0x40, "CAPLENGTH");
            assert_eq!(sim.read32(cap + 8) >> 17 & 1, u32::from(lpm), "HCCPARAMS.LEN");
            assert_eq!(sim.read32(cap + 0x24), 0x190, "DCCPARAMS: 16 endpoints, DC, HC");
            let expected = [
                ("USBCMD", R::Cmd),
                ("USBSTS", R::Sts),
                ("USBINTR", R::Intr),
                ("FRINDEX", R::FrIndex),
                ("DEVICEADDR", R::Addr),
                ("ENDPTLISTADDR", R::List),
                ("ULPI_VIEWPORT", R::Ulpi),
                ("PORTSC", R::PortSc),
                ("OTGSC", R::OtgSc),
                ("USBMODE", R::Mode),
                ("ENDPTSETUPSTAT", R::SetupStat),
                ("ENDPTPRIME", R::Prime),
                ("ENDPTFLUSH", R::Flush),
                ("ENDPTSTAT", R::Stat),
                ("ENDPTCOMPLETE", R::Complete),
                ("ENDPTCTRL", R::Ctrl(0)),
            ];
            for (name, register) in expected {
                let found = sim.registers().iter().find(|found| found.name == name).expect(name);
                assert_eq!(found.offset, cap + 0x40 + register.offset(lpm), "{name}");
            }
            assert_eq!(sim.registers().iter().any(|found| found.name == "DEVLC"), lpm);
        }
    }
}

#[test]
fn an_enumeration_over_each_map() {
    for config in configs() {
        let board = Board::running(config, Speed::High);
        board.setup([0x80, 6, 0, 1, 0, 0, 64, 0]);
        board.w(R::SetupStat, 1);
        let at = board.dtd(0, BUFFERS, 18, IOC);
        board.prime(1, at);
        assert_eq!(board.input(0).0, data(usb::wire::DataPid::Data1, 18));
        assert_eq!(board.r(R::Complete), bit(1));
    }
}

#[test]
fn dccparams_say_what_the_part_can_do() {
    let params = |endpoints, host_capable| quiet(Config { endpoints, host_capable, ..Config::default() }).read32(0x124);
    assert_eq!(params(8, true), 0x188);
    assert_eq!(params(16, false), 0x90);
    assert_eq!((params(0, false), params(99, false)), (0x81, 0x90), "out of range: the nearest");
}

#[test]
fn bytes_and_halves_are_lanes_of_a_word() {
    let sim = quiet(Config::default());
    sim.write32(0x148, 0x0001_0157);
    assert_eq!(sim.read(0x148, Width::U8), 0x57);
    assert_eq!(sim.read(0x149, Width::U8), 0x01);
    assert_eq!(sim.read(0x14a, Width::U16), 0x0001);
    assert_eq!(sim.read(0x149, Width::U16), 0x0101, "across halves");
    sim.write(0x149, Width::U8, 0x04);
    assert_eq!(sim.read32(0x148), 0x0001_0457);
    sim.write(0x14a, Width::U16, 0);
    assert_eq!(sim.read32(0x148), 0x0000_0457);
    // The end of USBINTR and the beginning of FRINDEX.
    assert_eq!(sim.read(0x148, Width::U64), 0x457);
    assert_eq!(sim.read(0x14a, Width::U32), 0);
    assert_eq!(sim.read(0x100, Width::U8), 0x40, "CAPLENGTH is a byte");
    assert_eq!(sim.read(0x102, Width::U16), 0x0100, "HCIVERSION");
}

#[test]
fn a_byte_write_commands_nothing_in_the_other_bytes() {
    let board = Board::high();
    board.setup([0; 8]);
    board.sim.write(0x144 + 1, Width::U8, 0xff);
    assert_eq!(board.r(R::Sts), UI, "UI is in byte 0");
    board.sim.write(0x144, Width::U8, 0x01);
    assert_eq!(board.r(R::Sts), 0);
    board.w(R::Addr, 7 << 25);
    board.sim.write(0x154, Width::U16, 0);
    assert_eq!(board.r(R::Addr), 7 << 25);
    board.sim.write(0x157, Width::U8, 9 << 1);
    assert_eq!(board.r(R::Addr), 9 << 25);
}

#[test]
fn the_ends_of_the_window() {
    let sim = quiet(Config::default());
    for offset in [0xffe, 0x1000, 0x1001, u64::MAX, u64::MAX - 3, 1 << 40] {
        for width in [Width::U8, Width::U16, Width::U32, Width::U64] {
            assert_eq!(sim.read(offset, width), 0);
            sim.write(offset, width, u64::MAX);
        }
    }
}

#[test]
fn usbsts_is_write_1_to_clear_and_feeds_the_level() {
    let board = Board::new(Config { vbus: true, ..Config::default() });
    board.start();
    board.bus_reset(Speed::High);
    assert_eq!((board.r(R::Sts), board.level()), (URI | PCI, true));
    board.w(R::Sts, 0);
    board.w(R::Sts, URI);
    assert_eq!((board.r(R::Sts), board.level()), (PCI, true));
    board.w(R::Intr, UI);
    assert!(!board.level(), "PCI is not enabled any more");
    board.w(R::Intr, PCI);
    assert!(board.level());
    board.w(R::Sts, !0);
    assert_eq!((board.r(R::Sts), board.level()), (0, false));
}

#[test]
fn a_controller_reset_spares_otgsc_and_the_glues_registers() {
    let board = Board::high();
    board.bulk(1, 512);
    board.prime(3, board.dtd(0, BUFFERS, 4, IOC));
    board.w(R::OtgSc, 1 << 27 | 1 << 19);
    board.sim.write32(0x98, 8);
    board.setup([0; 8]);
    board.w(R::Cmd, RST);
    assert_eq!(board.r(R::Cmd) & (RST | RS), 0, "clears itself");
    assert_eq!(board.r(R::OtgSc) & (1 << 27 | 1 << 11), 1 << 27 | 1 << 11, "BSVIE and BSV");
    assert_eq!(board.sim.read32(0x98), 8);
    for register in [R::Sts, R::Intr, R::Addr, R::List, R::Mode, R::SetupStat, R::Stat, R::Complete, R::Ctrl(1)] {
        assert_eq!(board.r(register), 0, "{register:?}");
    }
    assert_eq!((board.sim.attached(), board.level()), (None, false));
    board.sim.set_vbus(false);
    assert!(board.level(), "unplug is still seen");
}

#[test]
fn a_power_on_reset_makes_everything_new_but_the_cable() {
    let board = Board::high();
    board.bulk(1, 512);
    board.w(R::OtgSc, 1 << 27);
    board.sim.write32(0x98, 8);
    board.sim.power_on();
    let fresh = Board::new(Config { vbus: true, ..Config::default() });
    for offset in (0..0x1000).step_by(4) {
        assert_eq!(board.sim.read32(offset), fresh.sim.read32(offset), "{offset:#x}");
    }
    assert!(!board.level());
}

#[test]
fn cm_is_written_once_after_a_reset() {
    let board = Board::new(Config::default());
    board.w(R::Mode, 2);
    board.w(R::Mode, 3);
    assert_eq!(board.r(R::Mode), 2);
    board.w(R::Mode, 0);
    assert_eq!(board.r(R::Mode), 2);
    board.w(R::Cmd, RST);
    board.w(R::Mode, 1);
    assert_eq!(board.r(R::Mode), 0, "reserved");
    board.w(R::Mode, 3);
    assert_eq!(board.r(R::Mode), 0, "there is no host mode");
    // As the msm glue does it.
    for value in [2, 0xa, 0x1a] {
        board.w(R::Mode, value);
        assert_eq!(board.r(R::Mode), value);
    }
    let device_only = Board::new(Config { host_capable: false, ..Config::default() });
    assert_eq!(device_only.r(R::Mode), 2, "always");
    device_only.w(R::Mode, 3);
    assert_eq!(device_only.r(R::Mode), 2);
}

#[test]
fn test_modes_are_refused() {
    let log = Arc::new(Log::default());
    let board = Board::build(Config::default(), Vec::new(), bus::Trace::to(log.clone())).started(Speed::High);
    log.take();
    board.w(R::PortSc, board.r(R::PortSc) | 4 << 16);
    assert!(log.take().contains(&"chipidea: refused PORTSC.PTC = 4: no test modes".to_owned()));
    assert_eq!(board.r(R::PortSc) >> 16 & 15, 0);
    assert_eq!(board.setup([0; 8]), usb::wire::Handshake::Ack, "no effect");
}

#[test]
fn the_msm_glues_registers() {
    let board = Board::new(Config { window: 0x2000, ..Config::default() });
    let sim = &board.sim;
    sim.write32(0x170, 0xa000_0000);
    assert_eq!(sim.read32(0x170) & 0xc000_0000, 0, "WAKEUP and RUN clear");
    sim.write32(0x170, 0x6016_00aa);
    sim.write32(0x170, 0x4016_0000);
    assert_eq!(sim.read32(0x170) & 0xc800_ff00, 0x0800_aa00, "SYNC, and the scratch register reads back");
    for address in [0x0d, 0x10] {
        sim.write32(0x170, 0x6000_0004 | address << 16);
        sim.write32(0x170, 0x4000_0000 | address << 16);
        assert_eq!(sim.read32(0x170) >> 8 & 0xff, 4);
    }
    sim.write32(0x184, 0x8000_0000);
    assert_eq!(sim.read32(0x184), 0x8000_0000, "PTS is kept");
    for offset in [0x98, 0x9c, 0xa0, 0x240, 0x278] {
        sim.write32(offset, 0x1234_5678);
        assert_eq!(sim.read32(offset), 0x1234_5678, "{offset:#x}");
    }
    sim.write32(0x90, 5);
    assert_eq!(sim.read32(0x90), 5, "AHB burst");
}

#[test]
fn the_boards_reset_line_resets_the_core() {
    let board = Board::running(Config { window: 0x2000, ..Config::default() }, Speed::High);
    board.sim.write32(0x98, 8);
    board.sim.write32(0x1000, 1);
    assert_eq!((board.sim.read32(0x1000), board.sim.attached(), board.r(R::Mode)), (1, None, 0));
    assert_eq!(board.sim.read32(0x98), 0);
    board.sim.write32(0x1000, 0);
    assert_eq!(board.sim.read32(0x1000), 0);
    assert_eq!(board.started(Speed::High).setup([0; 8]), usb::wire::Handshake::Ack);

    let small = Board::high();
    small.sim.write32(0x1000, 1);
    assert_eq!((small.sim.read32(0x1000), small.r(R::Mode)), (0, 10), "beyond a 4 KiB window");
}

#[test]
fn the_id_register_tells_the_revision() {
    assert_eq!(quiet(Config::default()).read32(0), 0xe4a1_fa05);
    let revision_22 = quiet(Config { id: 0xe441_fa05, ..Config::default() }).read32(0);
    assert_eq!((revision_22 >> 25 & 15, revision_22 >> 21 & 15), (2, 2));
    assert_eq!(quiet(Config { cap_offset: 0, ..Config::default() }).read32(0) & 0xff, 0x40, "no room for it");
}
