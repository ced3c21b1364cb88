//! Cable, bus and power.

use qemu::{BoardError, Glue};
use tokio::runtime::Builder;
use usb_host::HubError;

use crate::common::{KERNELS, console_line, ensure, network, with_board};

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn the_cable_is_pulled_out_and_plugged_in_again() {
    for kernel in KERNELS {
        for glue in [Glue::Msm, Glue::Pci] {
            with_board(
                kernel,
                |config| config.glue = glue,
                |board, _| {
                    for _ in 0..3 {
                        board.unplug();
                        board.gone()?;
                        board.plug();
                        let device = board.enumerated()?;
                        network(&device, "cdc_ether", 16 << 10)?;
                    }
                    Ok(())
                },
            );
        }
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn the_bus_is_suspended_and_resumed() {
    let failed = |what: &'static str| move |error: HubError| BoardError::Data(format!("{what}: {error}"));
    for kernel in KERNELS {
        for glue in [Glue::Msm, Glue::Pci] {
            with_board(
                kernel,
                |config| config.glue = glue,
                |board, device| {
                    let runtime = Builder::new_current_thread().enable_time().build();
                    let runtime = runtime.map_err(|error| BoardError::System { what: "no event loop", error })?;
                    runtime.block_on(board.host().suspend()).map_err(failed("suspend"))?;
                    board.says("state suspended")?;
                    runtime.block_on(board.host().resume()).map_err(failed("resume"))?;
                    board.says("state configured")?;
                    network(&device, "cdc_ether", 16 << 10)
                },
            );
        }
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn the_board_is_rebooted() {
    for kernel in KERNELS {
        with_board(
            kernel,
            |_| (),
            |board, _| {
                for _ in 0..2 {
                    let device = board.reboot()?;
                    network(&device, "cdc_ether", 16 << 10)?;
                }
                Ok(())
            },
        );
    }
}

#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn the_gadget_is_unbound_and_the_driver_too() {
    for kernel in KERNELS {
        with_board(
            kernel,
            |config| config.gadget = "source-sink".to_owned(),
            |board, _| {
                board.command("unbind")?;
                board.gone()?;
                board.command("bind")?;
                board.enumerated()?;
                board.command("disconnect")?;
                board.gone()?;
                board.command("connect")?;
                board.enumerated()?;
                Ok(())
            },
        );
    }
}

/// The whole board sleeps and wakes by its clock.
#[test]
#[ignore = "needs qemu/setup, takes minutes: run qemu/test --all"]
fn the_board_sleeps_and_wakes() {
    for kernel in KERNELS {
        with_board(
            kernel,
            |_| (),
            |board, _| {
                board.command("suspend 2")?;
                ensure(console_line(board, "PM: suspend exit").is_some(), || "the kernel did not suspend".to_owned())?;
                let device = board.enumerated()?;
                network(&device, "cdc_ether", 16 << 10)
            },
        );
    }
}
