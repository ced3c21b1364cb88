//! String descriptors, read as message.c does.

use std::sync::Arc;

use parking_lot::Mutex;
use usb::ch9::{DescriptorType, SetupPacket, string_text};
use usb::urb::UrbError;

use crate::bus::{Bus, CONTROL_TIMEOUT};
use crate::error::HubError;

/// US English, assumed when the list of languages is malformed.
const ENGLISH: u16 = 0x0409;

/// The longest string descriptor that is asked for.
const MOST_BYTES: u16 = 255;

/// The language that a device's strings are read in; unknown until the first one.
#[derive(Debug, Default)]
pub(crate) struct Language(Mutex<Option<Result<u16, UrbError>>>);

/// `usb_string`: the text of string `index`, in the device's first language. `None` for index 0 and on errors.
pub(crate) async fn read_string(bus: &Arc<Bus>, address: u8, language: &Language, index: u8) -> Option<String> {
    if index == 0 {
        return None;
    }
    let language = read_language(bus, address, language).await.ok()?;
    let bytes = string_sub(bus, address, language, index).await.ok()?;
    let text = string_text(&bytes);
    // The kernel's strings end at a NUL.
    let text = text.split('\0').next().unwrap_or_default();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `usb_get_langid`.
async fn read_language(bus: &Arc<Bus>, address: u8, language: &Language) -> Result<u16, UrbError> {
    if let Some(known) = *language.0.lock() {
        return known;
    }
    let found = match string_sub(bus, address, 0, 0).await {
        Ok(bytes) if bytes.len() >= 4 => Ok(u16::from_le_bytes([bytes[2], bytes[3]])),
        Ok(_) | Err(HubError::NoData) => {
            bus.log_device("language id specifier not provided by device, defaulting to English");
            Ok(ENGLISH)
        }
        Err(error) => {
            bus.log_device(format_args!("string descriptor 0 read error: {}", error.errno()));
            Err(UrbError::Stall)
        }
    };
    *language.0.lock() = Some(found);
    found
}

/// `usb_get_string`: three tries after no data, -32 or a wrong type.
async fn get_string(bus: &Arc<Bus>, address: u8, language: u16, index: u8, length: u16) -> Result<Vec<u8>, HubError> {
    let setup = SetupPacket::get_descriptor(DescriptorType::String, index, language, length);
    let mut last = Ok(Vec::new());
    for _ in 0..3 {
        match bus.control_in(address, setup, CONTROL_TIMEOUT).await {
            Ok(bytes) if bytes.is_empty() => last = Ok(bytes),
            Err(UrbError::Stall) => last = Err(UrbError::Stall.into()),
            Ok(bytes) if bytes.len() > 1 && bytes[1] != DescriptorType::String.0 => last = Err(HubError::NoData),
            result => return result.map_err(HubError::from),
        }
    }
    last
}

/// `usb_string_sub`: 255 bytes, else two and then as many as these say. An even number of bytes, at least two.
async fn string_sub(bus: &Arc<Bus>, address: u8, language: u16, index: u8) -> Result<Vec<u8>, HubError> {
    let mut result = get_string(bus, address, language, index, MOST_BYTES).await;
    if !matches!(&result, Ok(bytes) if bytes.len() >= 2) {
        result = get_string(bus, address, language, index, 2).await;
        if let Ok(&[length, _]) = result.as_deref()
            && length > 0
        {
            result = get_string(bus, address, language, index, length.into()).await;
        }
    }
    let mut bytes = result?;
    if let Some(&length) = bytes.first() {
        bytes.truncate(length.into());
    }
    bytes.truncate(bytes.len() & !1);
    if bytes.len() < 2 { Err(UrbError::Invalid.into()) } else { Ok(bytes) }
}
