//! What the driver reads and writes, in ci_hdrc's order.

use std::sync::Arc;

use bus::Mmio;
use chipidea_driver::{ChipideaUdc, Config};
use chipidea_sim::Layout;
use usb::ch9::EndpointDescriptor;
use usb::{EndpointAddress, TransferType, Udc, UdcDriver, UsbPort};

use crate::bench::Access::{Read, Write};
use crate::bench::{Access, Bench, Parts, pattern};

const ID: u64 = 0x00;
const SBUSCFG: u64 = 0x90;
const CAPLENGTH: u64 = 0x100;
const HCCPARAMS: u64 = 0x108;
const DCCPARAMS: u64 = 0x124;
const USBCMD: u64 = 0x140;
const USBSTS: u64 = 0x144;
const USBINTR: u64 = 0x148;
const DEVICEADDR: u64 = 0x154;
const ENDPTLISTADDR: u64 = 0x158;
const PORTSC: u64 = 0x184;
const OTGSC: u64 = 0x1a4;
const USBMODE: u64 = 0x1a8;
const SETUPSTAT: u64 = 0x1ac;
const PRIME: u64 = 0x1b0;
const FLUSH: u64 = 0x1b4;
const STAT: u64 = 0x1b8;
const COMPLETE: u64 = 0x1bc;

/// The interrupt handler as far as USBSTS, which holds `status`.
fn interrupt(status: u32) -> Vec<Access> {
    vec![Read(OTGSC), Read(USBMODE), Read(USBSTS), Read(USBINTR), Write(USBSTS, status)]
}

/// Flushes of these bits, one after the other (`hw_ep_flush`).
fn flushes(bits: &[u32]) -> Vec<Access> {
    bits.iter().flat_map(|&bit| [Write(FLUSH, bit), Read(FLUSH), Read(STAT)]).collect()
}

/// ENDPTFLUSH as it was written.
fn flushed(accesses: &[Access]) -> Vec<u32> {
    let bits = |access: &Access| if let Write(FLUSH, bits) = *access { Some(bits) } else { None };
    accesses.iter().filter_map(bits).collect()
}

/// `hw_usb_reset` and what `isr_reset_handler` does after it, until the port change.
fn restart(complete: u32, interrupts: u32) -> Vec<Access> {
    vec![
        Read(DEVICEADDR),
        Write(DEVICEADDR, 0),
        Write(FLUSH, u32::MAX),
        Read(SETUPSTAT),
        Write(SETUPSTAT, 0),
        Read(COMPLETE),
        Write(COMPLETE, complete),
        Read(PRIME),
        Read(USBSTS),
        Write(USBSTS, 0x100),
        Read(USBINTR),
        Write(USBINTR, interrupts | 0x100),
        Read(PORTSC),
    ]
}

/// A bench whose driver has not started, VBUS there.
fn powered(parts: Parts) -> Bench {
    let mut parts = parts;
    parts.model.vbus = true;
    Bench::of(parts)
}

#[test]
fn a_probe() {
    for (vbus, low_power) in [(false, false), (true, false), (true, true)] {
        let mut parts = Parts::default();
        parts.model.vbus = vbus;
        let mut bench = Bench::of(parts);
        bench.udc.shutdown().expect("everything is given back");
        if low_power {
            bench.model.write32(PORTSC, 1 << 23);
        }
        let (tap, dma) = (Arc::clone(&bench.tap), bench.machine.api.clone());
        let otgsc = bench.model.read32(OTGSC);
        let seen = tap.during(|| bench.udc = ChipideaUdc::probe(tap.clone(), dma, Config::default()).expect("probes"));
        let mut expected = vec![Read(CAPLENGTH), Read(HCCPARAMS), Read(DCCPARAMS), Read(PORTSC)];
        if low_power {
            let Some(&Write(PORTSC, awake)) = seen.get(5) else { panic!("PHCD is cleared: {seen:x?}") };
            assert_eq!(awake & 1 << 23, 0);
            expected.extend([Read(PORTSC), Write(PORTSC, awake)]);
        }
        expected.extend([Write(USBINTR, 0), Write(USBSTS, u32::MAX), Read(ID), Read(ID)]);
        // `ci_get_otg_capable`, `ci_hdrc_gadget_init`.
        expected.extend([Read(DCCPARAMS), Read(OTGSC), Write(OTGSC, otgsc | 0x7f_0000), Read(DCCPARAMS)]);
        let cmd = bench.model.read32(USBCMD);
        expected.extend([Read(USBCMD), Write(USBCMD, cmd), Read(OTGSC)]);
        // `ci_handle_vbus_change` looks again if VBUS has not come.
        expected.extend((!vbus).then_some(Read(OTGSC)));
        expected.extend([Read(OTGSC), Write(OTGSC, otgsc | 0x0808_0000)]);
        assert_eq!(seen, expected, "VBUS {vbus}, low power {low_power}");
        bench.shut_down().assert_clean();
    }
}

#[test]
fn a_start_and_one_pullup() {
    let mut bench = powered(Parts::default());
    let tap = Arc::clone(&bench.tap);
    let seen = tap.during(|| bench.udc.start().expect("starts"));
    let mut expected = vec![Write(FLUSH, u32::MAX), Read(USBCMD), Write(USBCMD, 0x8_0000)];
    expected.extend([Read(USBCMD), Write(USBCMD, 0x8_0002), Read(USBCMD)]);
    for mode in [0, 2, 0xa] {
        expected.extend([Read(USBMODE), Write(USBMODE, mode)]);
    }
    // `hw_device_reset` asks, and `ci_platform_configure` twice.
    expected.extend([Read(USBMODE); 3]);
    expected.extend([Read(USBMODE), Write(USBMODE, 0x1a), Read(USBCMD), Write(USBCMD, 0x1_0000)]);
    expected.extend([Read(SBUSCFG), Write(SBUSCFG, 0), Read(SBUSCFG)]);
    let list = bench.udc.engine().list_address().0 as u32;
    expected.extend([Write(ENDPTLISTADDR, list), Write(USBINTR, 0x47), Read(USBCMD), Write(USBCMD, 0x1_0001)]);
    assert_eq!(seen, expected);
    let again = tap.during(|| {
        bench.udc.start().expect("runs already");
        bench.udc.pullup(true).expect("is on");
    });
    assert_eq!(again, []);
    let off = tap.during(|| {
        bench.udc.pullup(false).expect("off");
        bench.udc.pullup(false).expect("is off");
    });
    assert_eq!(off, [Read(USBCMD), Write(USBCMD, 0x1_0000)]);
    bench.shut_down().assert_clean();
}

#[test]
fn a_configuration_goes_where_ci_hdrc_puts_it() {
    let written = |config: Config| {
        let mut bench = powered(Parts { config, ..Parts::default() });
        bench.model.write32(SBUSCFG, 6);
        bench.udc.start().expect("starts");
        let modes = bench.tap.written(USBMODE);
        let values = (bench.model.read32(USBCMD) >> 16 & 0xff, bench.model.read32(SBUSCFG));
        bench.shut_down().assert_clean();
        (modes, values)
    };
    assert_eq!(written(Config::default()), (vec![0, 2, 0xa, 0x1a], (1, 0)));
    let other = Config { interrupt_threshold: 8, disable_streaming: false, ahb_burst: None, ..Config::default() };
    assert_eq!(written(other), (vec![0, 2, 0xa], (8, 6)));
    let burst = Config { interrupt_threshold: 0, ahb_burst: Some(0xfb), ..Config::default() };
    assert_eq!(written(burst), (vec![0, 2, 0xa, 0x1a], (0, 3)), "three bits");
}

#[test]
fn the_first_bus_reset_flushes_no_endpoint_by_itself() {
    let mut bench = powered(Parts::default());
    bench.udc.start().expect("starts");
    let tap = Arc::clone(&bench.tap);
    let seen = tap.during(|| bench.bus_reset());
    assert_eq!(seen, [interrupt(0x44), restart(0, 0x47)].concat());
    bench.shut_down().assert_clean();
}

#[test]
fn a_bus_reset_flushes_in_the_order_of_the_list_and_endpoint_0_last() {
    let mut bench = Bench::configured(Parts::endpoints(4));
    let tap = Arc::clone(&bench.tap);
    let ctrl1 = 0x1c4;
    // The gadget disables its endpoints itself.
    let seen = tap.during(|| bench.bus_reset());
    // An endpoint that was never enabled has the number of endpoint 0 OUT.
    let list = [2, 0x2_0000, 1, 1, 1, 1, 1, 0x1_0000];
    let mut expected = interrupt(0x44);
    expected.extend(flushes(&[2]));
    expected.extend([Read(ctrl1), Write(ctrl1, 0x88_0008)]);
    expected.extend(flushes(&[0x2_0000]));
    expected.extend([Read(ctrl1), Write(ctrl1, 0x8_0008)]);
    expected.extend(flushes(&list));
    expected.extend(restart(0, 0x147));
    assert_eq!(seen, expected);
    // One that leaves it to the driver.
    bench.control_out([0, 9, 1, 0, 0, 0, 0, 0], &[]).expect("SET_CONFIGURATION");
    bench.gadget.configured = false;
    let seen = tap.during(|| bench.bus_reset());
    assert_eq!(flushed(&seen), [&list[..], &[2, 0x2_0000, u32::MAX]].concat());
    bench.shut_down().assert_clean();
}

#[test]
fn before_the_speed_is_known_the_controller_is_left_alone() {
    let mut bench = powered(Parts::default());
    bench.udc.start().expect("starts");
    let endpoint = EndpointAddress::out(1);
    let descriptor = EndpointDescriptor::new(endpoint, TransferType::Bulk, 512, 0);
    bench.udc.enable(&descriptor).expect("is disabled");
    let tap = Arc::clone(&bench.tap);
    let seen = tap.during(|| {
        bench.udc.flush(endpoint).expect("nothing to do");
        bench.udc.disable(endpoint).expect("is enabled");
    });
    assert_eq!(seen, []);
    bench.udc.enable(&descriptor).expect("is disabled again");
    bench.bus_reset();
    let seen = tap.during(|| bench.udc.flush(endpoint).expect("flushes"));
    assert_eq!(seen, flushes(&[2]));
    bench.shut_down().assert_clean();
}

#[test]
fn a_control_transfer() {
    let mut bench = Bench::attached(Parts::default());
    let tap = Arc::clone(&bench.tap);
    let none = [Read(COMPLETE), Write(COMPLETE, 0)];
    let mut control = bench.host.begin_in([0x80, 6, 0, 1, 0, 0, 18, 0]).expect("ACK");
    let seen = tap.during(|| bench.run());
    let mut expected = interrupt(1);
    expected.extend(none);
    expected.extend([Read(SETUPSTAT), Write(SETUPSTAT, 1)]);
    expected.extend(flushes(&[1, 0x1_0000]));
    for cmd in [0x1_2001, 0x1_0001] {
        expected.extend([Read(USBCMD), Read(USBCMD), Write(USBCMD, cmd)]);
    }
    expected.extend([Write(PRIME, 0x1_0000), Read(PRIME)]);
    expected.extend(none);
    assert_eq!(seen, expected, "SETUP");
    assert_eq!(bench.host.advance_in(&mut control), Ok(None));
    let seen = tap.during(|| bench.run());
    let mut expected = interrupt(1);
    expected.extend(none);
    expected.extend([Read(SETUPSTAT), Write(SETUPSTAT, 0), Read(COMPLETE), Write(COMPLETE, 0x1_0000)]);
    expected.extend([Read(SETUPSTAT), Write(PRIME, 1), Read(PRIME), Read(SETUPSTAT)]);
    assert_eq!(seen, expected, "data");
    assert_eq!(bench.host.advance_in(&mut control), Ok(Some(pattern(18))));
    bench.shut_down().assert_clean();
}

#[test]
fn an_unplug_and_a_plug() {
    let mut bench = Bench::attached(Parts::endpoints(2));
    let tap = Arc::clone(&bench.tap);
    let otgsc = |bench: &Bench| bench.model.read32(OTGSC) & !0x7f_0000;
    bench.model.set_vbus(false);
    let low = otgsc(&bench);
    let seen = tap.during(|| bench.run());
    let mut expected = vec![Read(OTGSC), Read(OTGSC), Write(OTGSC, low | 1 << 19), Read(OTGSC), Read(OTGSC)];
    expected.extend([Read(USBCMD), Write(USBCMD, 0x1_0000), Write(USBINTR, 0)]);
    expected.extend(flushes(&[1, 1, 1, 0x1_0000]));
    assert_eq!(seen, expected);
    bench.model.set_vbus(true);
    let high = otgsc(&bench);
    let seen = tap.during(|| bench.run());
    assert_eq!(seen[..4], [Read(OTGSC), Read(OTGSC), Write(OTGSC, high | 1 << 19), Read(OTGSC)]);
    assert_eq!(seen[4], Write(FLUSH, u32::MAX));
    assert_eq!(seen.last(), Some(&Write(USBCMD, 0x1_0001)));
    assert_eq!(seen.iter().filter(|&&access| access == Write(USBCMD, 0x1_0001)).count(), 1);
    bench.shut_down().assert_clean();
}

#[test]
fn a_shutdown() {
    let mut bench = Bench::attached(Parts::endpoints(2));
    let tap = Arc::clone(&bench.tap);
    let seen = tap.during(|| bench.udc.shutdown().expect("everything is given back"));
    let mut expected = vec![Read(USBCMD), Write(USBCMD, 0x1_0000), Write(USBINTR, 0)];
    expected.extend(flushes(&[1, 1, 1, 0x1_0000]));
    let otgsc = bench.model.read32(OTGSC);
    assert_eq!(otgsc >> 16, 0, "nothing is enabled or pending");
    expected.extend([Read(OTGSC), Write(OTGSC, otgsc | 0x7f_0000)]);
    assert_eq!(seen, expected);
    assert_eq!(tap.during(|| bench.udc.shutdown().expect("was done")), []);
    bench.machine.assert_clean();
}

#[test]
fn the_lpm_map_has_low_power_in_devlc() {
    let mut parts = Parts::default();
    parts.model.layout = Layout::Lpm;
    let mut bench = Bench::of(parts);
    let devlc = 0x1c4;
    bench.udc.shutdown().expect("everything is given back");
    bench.model.write32(devlc, 1 << 22);
    let (tap, dma) = (Arc::clone(&bench.tap), bench.machine.api.clone());
    let seen = tap.during(|| bench.udc = ChipideaUdc::probe(tap.clone(), dma, Config::default()).expect("probes"));
    assert_eq!(seen[3..6], [Read(devlc), Read(devlc), Write(devlc, 0)]);
    bench.shut_down().assert_clean();
}
