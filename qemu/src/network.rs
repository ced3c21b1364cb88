//! IP between this process and the board's `usb0`.

use scenarios::{HostStack, LiveDevice};
use tokio::runtime::{Builder, Runtime};
use usb_host::net::NetDevice;

use crate::error::BoardError;

/// An IP stack at the host's end, 192.168.7.1; the board is 192.168.7.2.
pub struct Network {
    runtime: Runtime,
    stack: HostStack,
}

impl Network {
    /// Binds the class driver that Linux would to the device, with a stack on it.
    ///
    /// # Errors
    /// [`BoardError::Data`], if no driver binds.
    pub fn bind(device: &LiveDevice) -> Result<Self, BoardError> {
        let runtime =
            Builder::new_current_thread().enable_time().build().map_err(BoardError::system("no event loop"))?;
        let stack = runtime.block_on(async {
            let network =
                NetDevice::bind(device.device()).await.map_err(|error| BoardError::Data(error.to_string()))?;
            Ok::<_, BoardError>(HostStack::new(network, 0))
        })?;
        Ok(Self { runtime, stack })
    }

    /// The name of the class driver.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        self.stack.network().driver().name()
    }

    /// Sends `payload` in an ICMP echo request and waits for its return.
    ///
    /// # Errors
    /// [`BoardError::Data`].
    pub fn ping(&mut self, payload: &[u8]) -> Result<(), BoardError> {
        self.runtime.block_on(self.stack.ping(payload)).map_err(|failure| BoardError::Data(failure.error))
    }

    /// Sends `data` to a TCP port of the board, ends that half, and reads until the board ends its own.
    ///
    /// # Errors
    /// [`BoardError::Data`].
    pub fn send_all(&mut self, port: u16, data: &[u8]) -> Result<Vec<u8>, BoardError> {
        self.runtime.block_on(self.stack.send_all(port, data)).map_err(|failure| BoardError::Data(failure.error))
    }

    /// Sends `data` to a TCP port of the board and reads `expected` bytes.
    ///
    /// # Errors
    /// [`BoardError::Data`].
    pub fn exchange(&mut self, port: u16, data: &[u8], expected: usize) -> Result<Vec<u8>, BoardError> {
        let exchanged = self.stack.exchange(port, data, expected);
        self.runtime.block_on(exchanged).map_err(|failure| BoardError::Data(failure.error))
    }
}
