//! The bus by itself: what `usb_device::bus::UsbBus` promises, call by call.

use std::sync::Arc;

use chipidea_stacks::ChipideaBus;
use parking_lot::Mutex;
use pool::{DmaApi, Flags};
use scenarios::{Bench, Failure, Session, expect_equal};
use usb::{EndpointAddress, SetupPacket, Speed};
use usb_device::UsbError::{
    BufferOverflow, EndpointMemoryOverflow, EndpointOverflow, InvalidEndpoint, InvalidState, Unsupported, WouldBlock,
};
use usb_device::bus::{PollResult, UsbBus};
use usb_device::class_prelude::*;
use usb_device::device::{UsbDeviceBuilder, UsbVidPid};
use usb_device::endpoint::{EndpointAddress as StackAddress, EndpointType};
use usb_device::{Result, UsbDirection};
use usb_host::Device;

use crate::board::{TIMEOUT, bench, expect_bytes, failed, pattern, run};

const BULK_OUT: u8 = 0x01;
const BULK_IN: u8 = 0x81;
const ISO_IN: u8 = 0x82;
const ISO_OUT: u8 = 0x02;

/// A class that does nothing: its endpoints are the test's.
struct Idle {
    interface: InterfaceNumber,
    bulk_in: EndpointIn<'static, ChipideaBus>,
    bulk_out: EndpointOut<'static, ChipideaBus>,
    _isochronous: (EndpointIn<'static, ChipideaBus>, EndpointOut<'static, ChipideaBus>),
}

impl UsbClass<ChipideaBus> for Idle {
    fn get_configuration_descriptors(&self, writer: &mut DescriptorWriter) -> Result<()> {
        writer.interface(self.interface, 0xff, 0, 0)?;
        writer.endpoint(&self.bulk_in)?;
        writer.endpoint(&self.bulk_out)
    }
}

/// What a poll said, in words that compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    None,
    Reset,
    Data { out: u16, sent: u16, setup: u16 },
    Suspend,
    Resume,
}

fn poll(bus: &ChipideaBus) -> Said {
    match bus.poll() {
        PollResult::None => Said::None,
        PollResult::Reset => Said::Reset,
        PollResult::Data { ep_out, ep_in_complete, ep_setup } => {
            Said::Data { out: ep_out, sent: ep_in_complete, setup: ep_setup }
        }
        PollResult::Suspend => Said::Suspend,
        PollResult::Resume => Said::Resume,
    }
}

/// The board's bus and memory, and whether the test polls it.
#[derive(Default)]
struct Held {
    bus: Option<ChipideaBus>,
    dma: Option<DmaApi>,
    ours: bool,
}

#[derive(Clone, Default)]
struct Hold(Arc<Mutex<Held>>);

impl Hold {
    fn bus(&self) -> ChipideaBus {
        self.0.lock().bus.clone().expect("the board runs")
    }

    fn dma(&self) -> DmaApi {
        self.0.lock().dma.clone().expect("the board runs")
    }

    /// From now on the test polls.
    fn take_over(&self) -> ChipideaBus {
        self.0.lock().ours = true;
        self.bus()
    }

    fn give_back(&self) {
        self.0.lock().ours = false;
    }
}

fn idle(hold: &Hold) -> Bench {
    let hold = hold.clone();
    bench(Speed::High, "linked", move |allocator, bus, dma| {
        *hold.0.lock() = Held { bus: Some(bus.clone()), dma: Some(dma), ours: false };
        let iso = EndpointType::Isochronous {
            synchronization: IsochronousSynchronizationType::Asynchronous,
            usage: IsochronousUsageType::Data,
        };
        let mut class = Idle {
            interface: allocator.interface(),
            bulk_in: allocator.bulk(512),
            bulk_out: allocator.bulk(512),
            _isochronous: (
                allocator.alloc(None, iso, 1024, 1).expect("an endpoint"),
                allocator.alloc(None, iso, 1024, 1).expect("an endpoint"),
            ),
        };
        for (address, expected) in [
            (bus.write(BULK_IN.into(), &[1]), WouldBlock),
            (bus.read(BULK_OUT.into(), &mut [0; 512]), WouldBlock),
            (bus.write(BULK_OUT.into(), &[1]), InvalidEndpoint),
        ] {
            assert_eq!(address, Err(expected), "nothing runs yet");
        }
        let mut device = UsbDeviceBuilder::new(allocator, UsbVidPid(1, 2))
            .supports_remote_wakeup(true)
            .max_packet_size_0(64)
            .expect("a size of the specification")
            .build();
        let hold = hold.clone();
        Box::new(move || {
            if hold.0.lock().ours {
                // The test polls; only the interrupt has to go.
                return;
            }
            device.poll(&mut [&mut class]);
        })
    })
}

fn on_bus(act: impl AsyncFnOnce(&Session, &Device, &Hold) -> std::result::Result<(), Failure>) {
    let hold = Hold::default();
    run(&idle(&hold), async |session, device| act(session, &device, &hold).await);
}

#[test]
fn endpoints_are_allocated_once_and_as_far_as_there_are_any() {
    let seen: Arc<Mutex<Vec<Result<u8>>>> = Arc::default();
    let results = Arc::clone(&seen);
    let bench = bench(Speed::High, "linked", move |allocator, mut bus, _| {
        let mut results = results.lock();
        results.clear();
        let mut allocate = |direction, address: Option<u8>, kind, size| {
            let address = address.map(StackAddress::from);
            results.push(bus.alloc_ep(direction, address, kind, size, 1).map(u8::from));
        };
        use EndpointType::{Bulk, Control, Interrupt};
        use UsbDirection::{In, Out};
        allocate(Out, None, Bulk, 512);
        allocate(Out, Some(1), Bulk, 512);
        allocate(Out, Some(0x81), Bulk, 512);
        allocate(In, Some(0x81), Bulk, 512);
        allocate(In, Some(0x83), Bulk, 512);
        allocate(In, None, Bulk, 512);
        allocate(In, None, Interrupt, 1024);
        allocate(In, None, Interrupt, 1025);
        allocate(In, Some(0x84), Bulk, 512);
        allocate(Out, Some(0x10), Bulk, 64);
        allocate(Out, Some(2), Control, 64);
        allocate(Out, Some(0), Bulk, 64);
        allocate(In, None, Bulk, 64);
        let mut device = UsbDeviceBuilder::new(allocator, UsbVidPid(1, 2)).max_packet_size_0(64).expect("64").build();
        results.push(bus.alloc_ep(Out, None, Bulk, 64, 0).map(u8::from));
        Box::new(move || {
            device.poll(&mut []);
        })
    });
    run(&bench.endpoints(4), async |_, _| Ok(()));
    let expected: Vec<Result<u8>> = vec![
        Ok(1),
        Err(InvalidEndpoint),
        Err(InvalidEndpoint),
        Ok(0x81),
        Ok(0x83),
        Ok(0x82),
        Err(EndpointOverflow),
        Err(EndpointMemoryOverflow),
        Err(EndpointOverflow),
        Err(InvalidEndpoint),
        Err(Unsupported),
        Err(Unsupported),
        Err(EndpointOverflow),
        Err(InvalidState),
    ];
    assert_eq!(*seen.lock(), expected);
}

#[test]
fn a_packet_is_told_until_it_is_read_and_a_sent_one_once() {
    on_bus(async |session, device, hold| {
        session.settle().await;
        let bus = hold.bus();
        device.bulk_out(1, pattern(1, 100), TIMEOUT).await.map_err(failed("bulk write"))?;
        session.settle().await;
        expect_equal("news of a packet that was told", &bus.has_news(), &false)?;
        let unread = Said::Data { out: 2, sent: 0, setup: 0 };
        expect_equal("polls", &[poll(&bus), poll(&bus)], &[unread, unread])?;
        let mut packet = [0; 512];
        expect_equal(
            "a packet in too little room",
            &bus.read(BULK_OUT.into(), &mut packet[..99]),
            &Err(BufferOverflow),
        )?;
        expect_equal("the same with enough", &bus.read(BULK_OUT.into(), &mut packet), &Ok(100))?;
        expect_bytes("its bytes", &packet[..100], &pattern(1, 100)[..])?;
        expect_equal("no other", &bus.read(BULK_OUT.into(), &mut packet), &Err(WouldBlock))?;
        expect_equal("poll", &poll(&bus), &Said::None)?;

        let polls = hold.take_over();
        expect_equal("a packet beyond the maximum", &polls.write(BULK_IN.into(), &[0; 513]), &Err(BufferOverflow))?;
        expect_equal("a packet", &polls.write(BULK_IN.into(), &pattern(2, 512)), &Ok(512))?;
        expect_equal("one too many", &polls.write(BULK_IN.into(), &[1]), &Err(WouldBlock))?;
        expect_equal("poll", &poll(&bus), &Said::None)?;
        let seen = device.bulk_in(1, 512, TIMEOUT);
        let (seen, said) = (seen.await.map_err(failed("bulk read"))?, [poll(&bus), poll(&bus)]);
        expect_equal("its bytes", &seen, &pattern(2, 512))?;
        expect_equal("polls", &said, &[Said::Data { out: 0, sent: 2, setup: 0 }, Said::None])?;
        hold.give_back();
        Ok(())
    });
}

#[test]
fn without_memory_a_packet_is_refused_and_goes_later() {
    on_bus(async |session, device, hold| {
        session.settle().await;
        let (bus, dma) = (hold.bus(), hold.dma());
        let mut hoard = Vec::new();
        while let Ok(buffer) = dma.kmalloc(512, Flags::ATOMIC) {
            hoard.push(buffer);
        }
        let packet = pattern(1, 512);
        expect_equal("a packet without memory", &bus.write(BULK_IN.into(), &packet), &Err(EndpointMemoryOverflow))?;
        hoard.into_iter().for_each(|buffer| {
            dma.kfree(buffer);
        });
        expect_equal("a packet with memory", &bus.write(BULK_IN.into(), &packet), &Ok(512))?;
        let seen = device.bulk_in(1, 512, TIMEOUT).await.map_err(failed("bulk read"))?;
        expect_equal("its bytes", &seen, &packet)
    });
}

#[test]
fn an_unknown_endpoint_is_refused() {
    on_bus(async |_, _, hold| {
        let bus = hold.bus();
        for address in [0x03, 0x83, 0x1f, 0x90, 0xff, 0x01, 0x02] {
            expect_equal("write", &bus.write(address.into(), &[1]), &Err(InvalidEndpoint))?;
        }
        for address in [0x03, 0x83, 0x1f, 0x90, 0xff, 0x81, 0x82] {
            expect_equal("read", &bus.read(address.into(), &mut [0; 8]), &Err(InvalidEndpoint))?;
        }
        for address in [0x03, 0x83, 0x1f, 0x90, 0xff] {
            bus.set_stalled(address.into(), true);
            expect_equal("halted", &bus.is_stalled(address.into()), &false)?;
        }
        Ok(())
    });
}

#[test]
fn a_halt_of_the_class_is_seen_by_the_host_and_ended_by_either() {
    on_bus(async |session, device, hold| {
        let bus = hold.bus();
        for by_host in [true, false, true, false] {
            bus.set_stalled(BULK_IN.into(), true);
            expect_equal("halted", &bus.is_stalled(BULK_IN.into()), &true)?;
            let seen = device.bulk_in(1, 512, TIMEOUT).await;
            expect_equal("a read of a halted endpoint", &seen, &Err(usb::urb::UrbError::Stall))?;
            if !by_host {
                bus.set_stalled(BULK_IN.into(), false);
                bus.set_stalled(BULK_IN.into(), false);
            }
            device.clear_halt(EndpointAddress::r#in(1)).await.map_err(failed("CLEAR_FEATURE"))?;
            expect_equal("halted", &bus.is_stalled(BULK_IN.into()), &false)?;
            for n in 0..3 {
                expect_equal("a packet", &bus.write(BULK_IN.into(), &pattern(n, 9)), &Ok(9))?;
                let seen = device.bulk_in(1, 512, TIMEOUT).await.map_err(failed("bulk read"))?;
                expect_equal("its bytes", &seen, &pattern(n, 9))?;
                // An unneeded call of the class changes nothing.
                bus.set_stalled(BULK_IN.into(), false);
                session.settle().await;
            }
        }
        Ok(())
    });
}

#[test]
fn isochronous_packets_are_accepted() {
    on_bus(async |session, device, hold| {
        session.settle().await;
        let bus = hold.bus();
        expect_equal("a packet", &bus.write(ISO_IN.into(), &pattern(1, 1000)), &Ok(1000))?;
        expect_equal("one too many", &bus.write(ISO_IN.into(), &[1]), &Err(WouldBlock))?;
        let target = usb::wire::Target { address: device.number(), endpoint: 2 };
        let mut packet = [0; 1024];
        let seen = session.port().data_in(target, &mut packet, usb::wire::HostAck::Sent);
        let data0 = usb::wire::DataPid::Data0;
        expect_equal("its packet", &seen, &usb::wire::InReply::Data { pid: data0, len: 1000 })?;
        expect_bytes("its bytes", &packet[..1000], &pattern(1, 1000)[..])?;
        session.settle().await;
        expect_equal("the next", &bus.write(ISO_IN.into(), &[1]), &Ok(1))?;
        session.port().data_out(target, data0, &pattern(2, 700));
        session.settle().await;
        expect_equal("what came", &bus.read(ISO_OUT.into(), &mut packet), &Ok(700))?;
        expect_bytes("its bytes", &packet[..700], &pattern(2, 700)[..])
    });
}

#[test]
fn the_address_holds_from_the_status_stage_on() {
    on_bus(async |session, device, hold| {
        let old = usb::wire::Target { address: device.number(), endpoint: 0 };
        let new = usb::wire::Target { address: 77, endpoint: 0 };
        let setup = SetupPacket::new(0, 5, 77, 0, 0);
        session.port().setup(old, &setup.to_bytes());
        session.settle().await;
        let get = SetupPacket::new(0x80, 8, 0, 0, 1).to_bytes();
        expect_equal("the new address", &session.port().setup(new, &get), &usb::wire::Handshake::Silence)?;
        let bus = hold.take_over();
        session.port().data_in(old, &mut [0; 64], usb::wire::HostAck::Sent);
        // Nobody has polled since: the controller did it.
        expect_equal("the new address", &session.port().setup(new, &get), &usb::wire::Handshake::Ack)?;
        expect_equal("the old address", &session.port().setup(old, &get), &usb::wire::Handshake::Silence)?;
        expect_equal("poll", &poll(&bus), &Said::Data { out: 0, sent: 0, setup: 1 })?;
        expect_equal("poll", &poll(&bus), &Said::Data { out: 0, sent: 0, setup: 1 })?;
        let short: Result<usize> = bus.read(0.into(), &mut [0; 7]);
        expect_equal("a SETUP in too little room", &short, &Err(BufferOverflow))?;
        let mut packet = [0; 64];
        expect_equal("the SETUP", &bus.read(0.into(), &mut packet), &Ok(8))?;
        expect_bytes("its bytes", &packet[..8], &get[..])?;
        expect_equal("no other", &bus.read(0.into(), &mut packet), &Err(WouldBlock))?;
        hold.give_back();
        Ok(())
    });
}

#[test]
fn a_forced_reset_enumerates_the_device_again() {
    on_bus(async |session, device, hold| {
        session.settle().await;
        expect_equal("force_reset", &hold.bus().force_reset(), &Ok(()))?;
        session.disconnected().await?;
        let again = session.enumerated().await?;
        expect_equal("a new device", &(again.number() != device.number()), &true)?;
        again.bulk_out(1, pattern(1, 9), TIMEOUT).await.map_err(failed("bulk write"))?;
        Ok(())
    });
}

#[test]
fn a_suspended_bus_says_nothing_until_it_resumes() {
    on_bus(async |session, device, hold| {
        device.bulk_out(1, pattern(1, 9), TIMEOUT).await.map_err(failed("bulk write"))?;
        session.settle().await;
        let bus = hold.take_over();
        expect_equal("a wakeup of a bus that is awake", &bus.remote_wakeup(), &false)?;
        session.port().suspend();
        let unread = Said::Data { out: 2, sent: 0, setup: 0 };
        expect_equal("polls", &[poll(&bus), poll(&bus), poll(&bus)], &[Said::Suspend, Said::None, Said::None])?;
        session.port().resume();
        expect_equal("polls", &[poll(&bus), poll(&bus)], &[Said::Resume, unread])?;
        session.port().reset(Speed::High);
        expect_equal("polls", &[poll(&bus), poll(&bus)], &[Said::Reset, Said::None])?;
        bus.reset();
        expect_equal("the packet of before", &bus.read(BULK_OUT.into(), &mut [0; 512]), &Err(WouldBlock))?;
        hold.give_back();
        Ok(())
    });
}

#[test]
fn a_suspended_device_wakes_its_host() {
    on_bus(async |session, device, hold| {
        let bus = hold.bus();
        session.host().suspend().await.map_err(|error| Failure::new(error.to_string()))?;
        session.settle().await;
        expect_equal("asleep", &session.host().controller().port_status().suspended, &true)?;
        expect_equal("a wakeup", &bus.remote_wakeup(), &true)?;
        session.sleep(10 * TIMEOUT).await;
        expect_equal("asleep", &session.host().controller().port_status().suspended, &false)?;
        expect_equal("a packet", &bus.write(BULK_IN.into(), &pattern(1, 9)), &Ok(9))?;
        let seen = device.bulk_in(1, 512, TIMEOUT).await.map_err(failed("bulk read"))?;
        expect_equal("its bytes", &seen, &pattern(1, 9))
    });
}

#[test]
fn a_bus_that_was_shut_down_is_dead_and_clean() {
    on_bus(async |session, device, hold| {
        let bus = hold.bus();
        device.bulk_out(1, pattern(1, 9), TIMEOUT).await.map_err(failed("bulk write"))?;
        session.settle().await;
        expect_equal("a packet", &bus.write(BULK_IN.into(), &[1]), &Ok(1))?;
        expect_equal("shutdown", &bus.shutdown(), &Ok(()))?;
        expect_equal("shutdown again", &bus.shutdown(), &Ok(()))?;
        expect_equal("blocks in use", &session.blocks_in_use(), &0)?;
        expect_equal("mappings in use", &session.mappings_in_use(), &0)?;
        expect_equal("poll", &poll(&bus), &Said::None)?;
        expect_equal("read", &bus.read(BULK_OUT.into(), &mut [0; 512]), &Err(WouldBlock))?;
        expect_equal("write", &bus.write(BULK_IN.into(), &[1]), &Err(WouldBlock))?;
        bus.set_stalled(BULK_IN.into(), true);
        bus.set_device_address(3);
        bus.reset();
        expect_equal("force_reset", &bus.force_reset(), &Ok(()))?;
        expect_equal("blocks in use", &session.blocks_in_use(), &0)
    });
}
