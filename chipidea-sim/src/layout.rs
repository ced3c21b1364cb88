//! What the controller assumes of memory: data beside the model.

use bus::LayoutContract;

use crate::kinds::DQH;

/// The dQH table behind ENDPTLISTADDR.
///
/// A dQH is 48 bytes long and the next one lies 64 bytes on; the register keeps bits 31:11. The pool that Linux takes
/// them from promises neither the order nor the alignment of the first.
pub static ENDPTLISTADDR: LayoutContract = LayoutContract {
    register: "ENDPTLISTADDR",
    statement: "2n dQHs of 64 bytes, ascending and adjacent, 2 KiB aligned",
    source: "ENDPTLISTADDR keeps bits 31:11; slot = 2n + IN; Linux 6.1 drivers/usb/chipidea/udc.c, init_eps and \
             hw_device_state",
    align: 2048,
    kind: &DQH,
    size: 48,
    stride: 64,
};
