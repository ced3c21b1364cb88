//! Every kernel with each glue, at both speeds, with few and many endpoints.

use gadgets::{EthernetConfig, EthernetGadget};
use qemu::Glue;
use scenarios::{Bench, LiveDevice, Session};
use usb::Speed;

use crate::common::{ECM, KERNELS, RNDIS, ensure, manufacturer, network, with_board};

/// The configurations as the in-process gadget has them, which equal the recorded session's.
fn recorded(speed: Speed) -> Vec<Vec<u8>> {
    let mut configurations = Vec::new();
    let act = async |session: &Session| {
        session.boot(EthernetGadget::new(EthernetConfig::default()))?;
        let device = session.enumerated().await?;
        configurations = device.configurations().iter().map(|configuration| configuration.raw.clone()).collect();
        Ok(())
    };
    let run = Bench::new().speed(speed).session("descriptors", act).expect("the bench can be set up");
    assert!(run.failure.is_none(), "{:?}", run.failure);
    configurations
}

fn configurations(device: &LiveDevice) -> Vec<Vec<u8>> {
    device.device().configurations().iter().map(|configuration| configuration.raw.clone()).collect()
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn every_kernel_glue_speed_and_number_of_endpoints() {
    for speed in [Speed::Full, Speed::High] {
        let recorded = recorded(speed);
        for kernel in KERNELS {
            for glue in [Glue::Msm, Glue::Pci] {
                for endpoints in [4, 8, 16] {
                    let change = |config: &mut qemu::BoardConfig| {
                        (config.glue, config.speed, config.endpoints) = (glue, speed, endpoints);
                    };
                    with_board(kernel, change, |_, device| {
                        ensure(device.device().speed() == speed, || format!("{}", device.device().speed()))?;
                        let text = manufacturer(&device);
                        ensure(text.ends_with(&format!(" with ci_hdrc_{}", glue.name())), || text.clone())?;
                        let seen = configurations(&device);
                        ensure(seen == recorded, || format!("{seen:02x?}\nrecorded: {recorded:02x?}"))
                    });
                }
            }
        }
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn every_kernel_by_ecm_and_by_rndis() {
    for kernel in KERNELS {
        for glue in [Glue::Msm, Glue::Pci] {
            for (configuration, driver) in [(ECM, "cdc_ether"), (RNDIS, "rndis_host")] {
                let change = |config: &mut qemu::BoardConfig| {
                    (config.glue, config.configuration) = (glue, Some(configuration));
                };
                with_board(kernel, change, |_, device| network(&device, driver, 4 << 20));
            }
        }
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn twenty_boots_in_a_row() {
    for boot in 0..20 {
        let kernel = KERNELS[boot % KERNELS.len()];
        let glue = if boot % 2 == 0 { Glue::Msm } else { Glue::Pci };
        with_board(kernel, |config| config.glue = glue, |_, device| network(&device, "cdc_ether", 64 << 10));
    }
}
