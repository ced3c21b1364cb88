//! Commands and responses of fastboot (AOSP `system/core/fastboot/README.md`), without USB.

use std::sync::Arc;

use thiserror::Error;

use super::storage::{Storage, StorageError};
use super::{Event, FastbootConfig};

/// Longest command in bytes.
pub const MAX_COMMAND: usize = 64;
/// Longest response in bytes: one less than a full-speed packet, so that it always ends its transfer.
pub const MAX_RESPONSE: usize = 63;

/// Why a command fails: the text after `FAIL`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Longer than [`MAX_COMMAND`].
    #[error("command of {0} bytes, at most 64 allowed")]
    TooLong(usize),
    /// Bytes that are not printable ASCII.
    #[error("command is not ASCII")]
    NotAscii,
    /// No such command.
    #[error("unknown command")]
    Unknown,
    /// No such variable.
    #[error("unknown variable")]
    UnknownVariable,
    /// `download:` without eight hex digits.
    #[error("download needs 8 hex digits")]
    BadSize,
    /// `download:00000000`.
    #[error("nothing to download")]
    NoData,
    /// More than the board has memory for.
    #[error("{size:#x} bytes, max-download-size is {limit:#x}")]
    TooMuch {
        /// Bytes announced.
        size: u32,
        /// Bytes allowed.
        limit: u32,
    },
    /// More came than `download:` said.
    #[error("{received} bytes received, {announced} announced")]
    Excess {
        /// Bytes that came.
        received: usize,
        /// Bytes announced.
        announced: usize,
    },
    /// The transfer broke off.
    #[error("download failed after {0} bytes")]
    Broken(usize),
    /// `flash:` or `boot` before a download.
    #[error("no image was downloaded")]
    NoImage,
    /// The partition does not take it.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A response to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The command is done.
    Okay(String),
    /// It failed.
    Fail(CommandError),
    /// Send that many bytes.
    Data(u32),
    /// A line for people; more follows.
    Info(String),
}

impl Response {
    /// As it goes over the wire, cut to [`MAX_RESPONSE`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = match self {
            Self::Okay(text) => format!("OKAY{text}"),
            Self::Fail(error) => format!("FAIL{error}"),
            Self::Data(size) => format!("DATA{size:08x}"),
            Self::Info(text) => format!("INFO{text}"),
        }
        .into_bytes();
        text.truncate(MAX_RESPONSE);
        text
    }
}

/// What follows a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next command.
    Command,
    /// A download of that many bytes.
    Download(u32),
    /// The bootloader ends, once the host has the response.
    Leave(Event),
}

/// The bootloader's state between commands.
#[derive(Clone, Debug)]
pub(super) struct Bootloader {
    config: FastbootConfig,
    pub(super) storage: Storage,
    /// What was downloaded last; empty: nothing.
    pub(super) image: Arc<Vec<u8>>,
}

impl Bootloader {
    pub(super) fn new(config: FastbootConfig) -> Self {
        let storage = Storage::new(config.partitions.iter().map(|(name, size)| (name.as_str(), *size)));
        Self { config, storage, image: Arc::default() }
    }

    /// Executes a command. The responses are in order; the last is not [`Response::Info`].
    pub(super) fn execute(&mut self, command: &[u8]) -> (Vec<Response>, Next) {
        let mut responses = Vec::new();
        let next = match self.dispatch(command, &mut responses) {
            Ok((response, next)) => {
                responses.push(response);
                next
            }
            Err(error) => {
                responses.push(Response::Fail(error));
                Next::Command
            }
        };
        (responses, next)
    }

    fn dispatch(&mut self, command: &[u8], info: &mut Vec<Response>) -> Result<(Response, Next), CommandError> {
        if command.len() > MAX_COMMAND {
            return Err(CommandError::TooLong(command.len()));
        }
        let printable = command.iter().all(|byte| (b' '..=b'~').contains(byte));
        let text = str::from_utf8(command).ok().filter(|_| printable).ok_or(CommandError::NotAscii)?;
        let okay = || Response::Okay(String::new());
        let leave = |event| Ok((okay(), Next::Leave(event)));
        match text.split_once(':') {
            Some(("getvar", "all")) => {
                info.extend(
                    self.variables().into_iter().map(|(name, value)| Response::Info(format!("{name}: {value}"))),
                );
                Ok((okay(), Next::Command))
            }
            Some(("getvar", name)) => {
                let value = self.variable(name).ok_or(CommandError::UnknownVariable)?;
                Ok((Response::Okay(value), Next::Command))
            }
            Some(("download", size)) => {
                let size = self.download_size(size)?;
                Ok((Response::Data(size), Next::Download(size)))
            }
            Some(("flash", partition)) => {
                self.storage.size(partition).ok_or(StorageError::NoPartition)?;
                if self.image.is_empty() {
                    return Err(CommandError::NoImage);
                }
                self.storage.flash(partition, Arc::clone(&self.image))?;
                Ok((okay(), Next::Command))
            }
            Some(("erase", partition)) => {
                self.storage.erase(partition)?;
                Ok((okay(), Next::Command))
            }
            None if text == "boot" => {
                if self.image.is_empty() {
                    return Err(CommandError::NoImage);
                }
                leave(Event::Boot(Arc::unwrap_or_clone(std::mem::take(&mut self.image))))
            }
            None if text == "continue" => leave(Event::Continue),
            None if text == "reboot" => leave(Event::Reboot),
            None if text == "reboot-bootloader" => leave(Event::RebootBootloader),
            _ => Err(CommandError::Unknown),
        }
    }

    fn download_size(&self, digits: &str) -> Result<u32, CommandError> {
        let well_formed = digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !well_formed {
            return Err(CommandError::BadSize);
        }
        let size = u32::from_str_radix(digits, 16).map_err(|_| CommandError::BadSize)?;
        let limit = self.config.max_download;
        match size {
            0 => Err(CommandError::NoData),
            size if size > limit => Err(CommandError::TooMuch { size, limit }),
            size => Ok(size),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("version".to_owned(), "0.4".to_owned()),
            ("product".to_owned(), self.config.product.clone()),
            ("serialno".to_owned(), self.config.serial.clone()),
            ("max-download-size".to_owned(), format!("{:#x}", self.config.max_download)),
        ];
        let sizes = self.storage.sizes().map(|(name, size)| (format!("partition-size:{name}"), format!("{size:#x}")));
        variables.extend(sizes);
        variables
    }
}
