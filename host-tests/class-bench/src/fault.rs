//! Faults of the wire.

use usb::wire::Target;

/// What a transaction begins with (USB 2.0 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// SETUP.
    Setup,
    /// OUT.
    Out,
    /// IN.
    In,
}

/// A transaction, before it takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Its place among all of the bench, from 0.
    pub number: u64,
    /// Where it goes.
    pub target: Target,
    /// How it begins.
    pub token: Token,
}

/// What happens to a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The token or the host's data is damaged: the device hears nothing, the host gets no answer.
    LostPacket,
    /// The handshake is lost. IN: the device sends the packet again (USB 2.0 §8.6.4). OUT and SETUP: the host does.
    LostHandshake,
    /// The device gets the packet of an OUT or SETUP twice, as after a lost handshake; the host does not notice.
    Repeated,
}

/// Gives every `period`th transaction the fault, from transaction `period - 1` on; `period` 0: none.
///
/// A transfer ends with -71 after three transactions in a row without an answer: a `period` of 1 stops all traffic.
pub fn every(period: u64, fault: Fault) -> impl FnMut(Transaction) -> Fault + Send + 'static {
    move |transaction| if period > 0 && transaction.number % period == period - 1 { fault } else { Fault::None }
}
