//! The gadget that queues nothing by itself.

use gadgets::scripted::{BULK_IN, BULK_OUT, ScriptedGadget};
use usb::ch9::DescriptorType;
use usb::gadget::{Request, RequestError, Stall};
use usb::{EndpointAddress, Gadget, SetupPacket, Speed, TransferType, Udc};

use crate::host::Host;

const SET_INTERFACE: u8 = 11;

fn set_interface(host: &mut Host<ScriptedGadget>, interface: u16, alternate: u16) -> Result<Vec<u8>, Stall> {
    host.control(SetupPacket::new(1, SET_INTERFACE, alternate, interface, 0), &[])
}

#[test]
fn its_isochronous_endpoint_has_the_number_that_it_was_made_with_and_a_setting_of_its_own() {
    let mut host = Host::new(ScriptedGadget::new(Some(7)), Speed::High);
    host.set_configuration(1).unwrap();
    let enabled = |host: &Host<ScriptedGadget>| host.udc.enabled.keys().copied().collect::<Vec<_>>();
    let (bulk, streaming) = ([BULK_OUT.address(), BULK_IN.address()], EndpointAddress::r#in(7));
    assert_eq!(enabled(&host), bulk);
    set_interface(&mut host, 1, 1).unwrap();
    assert_eq!(enabled(&host), [bulk[0], bulk[1], streaming]);
    assert_eq!(host.udc.enabled[&streaming].transfer_type(), TransferType::Isochronous);
    set_interface(&mut host, 1, 0).unwrap();
    assert_eq!(enabled(&host), bulk);
    assert_eq!(set_interface(&mut host, 1, 2), Err(Stall));
    host.set_configuration(0).unwrap();
    assert_eq!(enabled(&host), []);
}

#[test]
fn without_the_endpoint_there_is_no_such_interface() {
    let mut host = Host::new(ScriptedGadget::new(None), Speed::Full);
    host.set_configuration(1).unwrap();
    assert_eq!(set_interface(&mut host, 1, 0), Err(Stall));
    let configuration = SetupPacket::get_descriptor(DescriptorType::Configuration, 0, 0, 255);
    let header = [9, 2, 32, 0, 1, 1, 0, 0xe0, 0, 9, 4, 0, 0, 2, 0xff, 0, 0, 0];
    let endpoints = [7, 5, 0x81, 2, 64, 0, 0, 7, 5, 0x01, 2, 64, 0, 0];
    assert_eq!(host.control(configuration, &[]).unwrap(), [&header[..], &endpoints].concat());
}

#[test]
fn it_keeps_what_comes_back_and_counts_suspends_and_resumes() {
    let mut host = Host::new(ScriptedGadget::new(None), Speed::High);
    host.set_configuration(1).unwrap();
    assert_eq!(host.udc.memory(), 0, "it queues nothing");
    host.udc.queue(BULK_IN.address(), Request { id: 4, data: vec![1, 2, 3], ..Request::default() }).unwrap();
    assert_eq!(host.receive(1).unwrap(), [1, 2, 3]);
    host.udc.queue(BULK_OUT.address(), Request { id: 5, data: vec![0; 8], ..Request::default() }).unwrap();
    host.set_configuration(0).unwrap();
    let Host { udc, gadget, .. } = &mut host;
    gadget.suspend(udc);
    gadget.resume(udc);
    gadget.suspend(udc);
    let functions = gadget.functions();
    let came: Vec<_> = functions.completions.iter().map(|done| (done.request.id, done.status)).collect();
    assert_eq!(came, [(4, Ok(3)), (5, Err(RequestError::Shutdown))]);
    assert_eq!((functions.suspends, functions.resumes), (2, 1));
}
