//! A fastboot client (AOSP `system/core/fastboot/README.md`) on a host's device.

use std::time::Duration;

use usb::ch9::{Direction, TransferType};
use usb_host::Device;

use crate::verdict::Failure;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Responses have 64 bytes at most; a larger buffer lets a short packet end the transfer.
const RESPONSE: usize = 512;
/// Length of a download's transfers, as the tool splits them.
const CHUNK: usize = 1 << 20;

/// A client.
pub(crate) struct Fastboot<'a> {
    device: &'a Device,
    bulk_in: u8,
    bulk_out: u8,
}

impl<'a> Fastboot<'a> {
    /// The client of the interface FF/42/03.
    pub(crate) fn on(device: &'a Device) -> Result<Self, Failure> {
        let missing = || Failure::new("no fastboot interface FF/42/03 with two bulk endpoints");
        let configuration = device.active_configuration().ok_or_else(missing)?;
        let interface = configuration
            .interfaces
            .iter()
            .filter_map(|interface| interface.first_alternate())
            .find(|alternate| {
                let descriptor = &alternate.descriptor;
                (descriptor.class, descriptor.sub_class, descriptor.protocol) == (0xff, 0x42, 0x03)
            })
            .ok_or_else(missing)?;
        let bulk = |direction| {
            let endpoints = interface.endpoints.iter();
            let mut bulk = endpoints.filter(|endpoint| endpoint.descriptor.transfer_type() == TransferType::Bulk);
            bulk.find(|endpoint| endpoint.address().direction == direction).map(|endpoint| endpoint.address().number)
        };
        let bulk_in = bulk(Direction::In).ok_or_else(missing)?;
        let bulk_out = bulk(Direction::Out).ok_or_else(missing)?;
        Ok(Self { device, bulk_in, bulk_out })
    }

    /// Sends a command; the text after `OKAY`. `INFO` lines are passed over.
    pub(crate) async fn command(&self, command: &str) -> Result<String, Failure> {
        self.send(command.as_bytes().to_vec(), command).await?;
        self.response(command, "OKAY").await
    }

    /// Downloads `data` into the device's memory.
    pub(crate) async fn download(&self, data: &[u8]) -> Result<(), Failure> {
        let command = format!("download:{:08x}", data.len());
        self.send(command.as_bytes().to_vec(), &command).await?;
        let granted = self.response(&command, "DATA").await?;
        if u32::from_str_radix(&granted, 16).ok().map(|length| length as usize) != Some(data.len()) {
            return Err(Failure::new(format!("fastboot {command}: the device answered DATA{granted}")));
        }
        for chunk in data.chunks(CHUNK) {
            self.send(chunk.to_vec(), &command).await?;
        }
        self.response(&command, "OKAY").await.map(drop)
    }

    async fn send(&self, data: Vec<u8>, command: &str) -> Result<(), Failure> {
        let sent = self.device.bulk_out(self.bulk_out, data, TIMEOUT).await;
        sent.map(drop).map_err(|error| Failure::new(format!("fastboot {command}: OUT, error {}", error.errno())))
    }

    async fn response(&self, command: &str, wanted: &str) -> Result<String, Failure> {
        loop {
            let bytes = self.device.bulk_in(self.bulk_in, RESPONSE, TIMEOUT).await;
            let bytes =
                bytes.map_err(|error| Failure::new(format!("fastboot {command}: IN, error {}", error.errno())))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match text.split_at_checked(4) {
                Some((kind, rest)) if kind == wanted => return Ok(rest.to_owned()),
                Some(("INFO", _)) => {}
                _ => return Err(Failure::new(format!("fastboot {command}: the device answered {text:?}"))),
            }
        }
    }
}
