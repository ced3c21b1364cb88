//! The controller's registers, its role and its speed.

use crate::layout::ENDPTLISTADDR;
use crate::registers::{DeviceAddr, EndptCtrlHalf, PortSc, UsbCmd, UsbMode, UsbSts, otgsc};
use crate::slot::Slot;

use super::dump::{Dump, Name, RegisterLine};
use super::{Statement, words};

pub(super) fn judge(dump: &Dump) -> Vec<Statement> {
    let mut statements: Vec<Statement> = role(dump).into_iter().collect();
    statements.extend(device(dump));
    for register in &dump.registers {
        statements.push(Statement::fine(format!("{}: {}", register.name, decoded(register)), register.line.clone()));
    }
    statements.extend(mode(dump));
    statements.extend(pull_up(dump));
    statements.extend(interrupts(dump));
    statements.extend(port(dump));
    statements.extend(list_address(dump));
    statements.extend(pending(dump));
    statements
}

fn role(dump: &Dump) -> Option<Statement> {
    let role = dump.role.as_deref();
    if dump.not_in_gadget_mode || role == Some("host") {
        let text =
            "the controller is in its host role: the board is no USB device, and there are no dQHs and dTDs to show";
        let evidence = if dump.not_in_gadget_mode { "not in gadget mode" } else { "role: host" };
        return Some(Statement::wrong(text, evidence));
    }
    role.map(|role| Statement::fine(format!("role {role}"), format!("role: {role}")))
}

/// `device` and `otg`.
fn device(dump: &Dump) -> Vec<Statement> {
    let mut statements = Vec::new();
    if let Some(speed) = dump.device_value("speed") {
        // enum usb_device_speed of include/uapi/linux/usb/ch9.h.
        let text = match speed {
            "0" => "speed not known: no bus reset since VBUS came".to_owned(),
            "1" => "low speed".to_owned(),
            "2" => "full speed".to_owned(),
            "3" => "high speed".to_owned(),
            other => format!("speed {other}"),
        };
        statements.push(Statement::fine(text, format!("speed = {speed}")));
        match dump.device_value("gadget function") {
            Some(gadget) => {
                statements
                    .push(Statement::fine(format!("gadget {gadget} is bound"), format!("gadget function = {gadget}")));
            }
            None => statements.push(Statement::odd(
                "no gadget is bound, or soft_connect has let it go",
                "device has no line `gadget function`",
            )),
        }
    }
    if let Some(state) = &dump.otg_state {
        statements.push(Statement::fine(format!("OTG state {state}"), format!("OTG state: {state}")));
    }
    statements
}

/// A register's value in words.
fn decoded(register: &RegisterLine) -> String {
    let value = register.value;
    if let Some(words) = words::register(&register.name, value) {
        return words;
    }
    match register.name.as_str() {
        "ENDPTPRIME" | "ENDPTFLUSH" | "ENDPTSTAT" | "ENDPTCOMPLETE" | "ENDPTSETUPSTAT" if value == 0 => {
            "none".to_owned()
        }
        "ENDPTPRIME" | "ENDPTFLUSH" | "ENDPTSTAT" | "ENDPTCOMPLETE" | "ENDPTSETUPSTAT" => slots(value).join(", "),
        "DEVICEADDR" => {
            let address = DeviceAddr::from(value);
            format!("address {}{}", address.address(), if address.advance() { ", at the next IN" } else { "" })
        }
        name if name.starts_with("ENDPTCTRL") => {
            // Bits 15:0 are RX, 31:16 TX.
            let (rx, tx) = (EndptCtrlHalf::from(value as u16), EndptCtrlHalf::from((value >> 16) as u16));
            format!("RX {}, TX {}", half(rx), half(tx))
        }
        _ => format!("{value:#010x}"),
    }
}

fn half(half: EndptCtrlHalf) -> String {
    let kind = ["control", "isochronous", "bulk", "interrupt"][usize::from(half.kind() & 3)];
    match (half.enable(), half.stall()) {
        (false, _) => "disabled".to_owned(),
        (true, false) => kind.to_owned(),
        (true, true) => format!("{kind} and stalled"),
    }
}

/// The slots of bits, RX first.
fn slots(bits: u32) -> Vec<String> {
    (0..32).filter(|bit| bits & 1 << bit != 0).map(|bit| Name(Slot::from_bit(bit)).to_string()).collect()
}

fn runs(dump: &Dump) -> Option<(bool, &RegisterLine)> {
    dump.register("USBCMD").map(|command| (UsbCmd::from(command.value).run(), command))
}

fn mode(dump: &Dump) -> Option<Statement> {
    let register = dump.register("USBMODE")?;
    let mode = UsbMode::from(register.value).mode();
    let (runs, command) = runs(dump)?;
    if mode == UsbMode::DEVICE || !runs {
        return None;
    }
    let text = format!(
        "the controller runs and USBMODE.CM is {mode}, not {}: it is no device controller now",
        UsbMode::DEVICE
    );
    Some(Statement::wrong(text, format!("{}; {}", register.line, command.line)))
}

fn pull_up(dump: &Dump) -> Option<Statement> {
    let (runs, command) = runs(dump)?;
    let session = dump.register("OTGSC").map(|register| (register.value & otgsc::BSV != 0, register));
    let (text, evidence) = match (runs, session) {
        (true, Some((false, otgsc))) => (
            "the pull-up is on without VBUS (BSV is 0): the cable was just pulled, or VBUS is not sensed right",
            format!("{}; {}", command.line, otgsc.line),
        ),
        (false, Some((true, otgsc))) => (
            "VBUS is there and the pull-up is off, so that the host sees no device: no gadget is bound, it is held back \
             (soft_connect), or the driver missed BSVIS",
            format!("{}; {}", command.line, otgsc.line),
        ),
        (false, Some((false, otgsc))) => (
            "no VBUS (BSV is 0), so that Linux leaves the pull-up off: no cable, or VBUS is not sensed",
            format!("{}; {}", command.line, otgsc.line),
        ),
        (false, None) => ("the pull-up is off: the host sees no device", command.line.clone()),
        (true, _) => return None,
    };
    Some(Statement::odd(text, evidence))
}

fn interrupts(dump: &Dump) -> Vec<Statement> {
    let mut statements = Vec::new();
    let enabled = dump.register("USBINTR");
    if let (Some(enabled), Some((true, command))) = (enabled, runs(dump)) {
        let bits = UsbSts::from(enabled.value);
        // What hw_device_state enables.
        let all = [bits.interrupt(), bits.error(), bits.port_change(), bits.bus_reset()];
        if all.contains(&false) {
            let text =
                format!("the controller runs, and the driver hears only of {}", words::interrupts(enabled.value));
            statements.push(Statement::wrong(text, format!("{}; {}", enabled.line, command.line)));
        }
    }
    let Some(status) = dump.register("USBSTS") else { return statements };
    if UsbSts::from(status.value).system_error() {
        let text = "SEI: a memory access of the controller failed";
        statements.push(Statement::wrong(text, status.line.clone()));
    }
    if let Some(enabled) = enabled.filter(|enabled| enabled.value & status.value != 0) {
        let text = format!(
            "{} is pending and enabled: the interrupt was about to be handled, or does not reach the processor",
            words::interrupts(enabled.value & status.value)
        );
        statements.push(Statement::odd(text, format!("{}; {}", status.line, enabled.line)));
    }
    statements
}

fn port(dump: &Dump) -> Vec<Statement> {
    let Some(register) = dump.register("PORTSC") else { return Vec::new() };
    let port = PortSc::from(register.value);
    let mut statements = Vec::new();
    if port.suspended() {
        statements.push(Statement::odd("the bus is suspended", register.line.clone()));
    }
    if port.test() != 0 {
        let text = format!("the port is in test mode {}: it is no device", port.test());
        statements.push(Statement::wrong(text, register.line.clone()));
    }
    let high = match dump.device_value("speed") {
        Some("2") => false,
        Some("3") => true,
        _ => return statements,
    };
    if port.connected() && port.enabled() && port.high_speed() != high {
        let text = "the driver and PORTSC.HSP do not agree on the speed: a bus reset came between both files, or PCI was missed";
        statements.push(Statement::odd(text, register.line.clone()));
    }
    statements
}

/// ENDPTLISTADDR, of a reader who has it, against `qheads`.
fn list_address(dump: &Dump) -> Option<Statement> {
    let register = dump.register(ENDPTLISTADDR.register)?;
    let first = dump.head(Slot::from_number(0))?;
    let mask = !(ENDPTLISTADDR.align as u32 - 1);
    if register.value == first.address & mask {
        return None;
    }
    let text = format!(
        "the controller has its dQH table at {:#010x}, and not at {:#010x}, where the driver's write would put it: the controller was \
         reset, or somebody else set it up",
        register.value,
        first.address & mask
    );
    Some(Statement::wrong(text, format!("{}; {}", register.line, first.line)))
}

/// ENDPT registers that a driver clears, of a reader who has them.
fn pending(dump: &Dump) -> Vec<Statement> {
    let set = |name: &str| dump.register(name).filter(|register| register.value != 0);
    let mut statements = Vec::new();
    if let Some(register) = set("ENDPTSETUPSTAT") {
        let text = format!("the driver has not read a SETUP of {}", slots(register.value).join(", "));
        statements.push(Statement::wrong(text, register.line.clone()));
    }
    if let Some(register) = set("ENDPTCOMPLETE") {
        let text = format!("the driver has not yet looked at what is complete on {}", slots(register.value).join(", "));
        statements.push(Statement::odd(text, register.line.clone()));
    }
    for name in ["ENDPTPRIME", "ENDPTFLUSH"] {
        if let Some(register) = set(name) {
            let text = format!("{name} is under way on {}; it clears itself", slots(register.value).join(", "));
            statements.push(Statement::odd(text, register.line.clone()));
        }
    }
    if let Some(stat) = set("ENDPTSTAT") {
        for head in dump.heads.iter().filter(|head| stat.value & head.slot.bit() != 0) {
            if head.token().is_some_and(|token| !token.active()) {
                let text = format!("{} is primed by ENDPTSTAT, and its overlay is not ACTIVE", head.name());
                statements.push(Statement::odd(text, format!("{}; {}", stat.line, head.evidence(&[3]))));
            }
        }
    }
    statements
}
