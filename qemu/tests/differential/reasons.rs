//! Why a kernel's traffic differs.

use std::collections::BTreeSet;

use chipidea_sim::Section;

use crate::difference::Difference;

/// A difference that is meant to be.
struct Reason {
    /// Begins of its lines, in either traffic.
    lines: &'static [&'static str],
    why: &'static str,
}

/// All of them. What is not among them has to be mended.
const REASONS: [Reason; 2] = [
    Reason {
        lines: &["RESETLINE", "PORTSC = 80000000", "ULPI_VIEWPORT", "PHYCTRL", "AHBMODE", "GENCONFIG"],
        why: "The glue's own: the core's reset line, the ULPI PHY and its selection, the AHB bridge (ci_hdrc_msm_probe, \
              ci_hdrc_msm_notify_event, hw_phymode_configure, the driver of qcom,usb-hs-phy). The driver here begins behind \
              its glue, as chipidea-driver says.",
    },
    Reason {
        lines: &["OTGSC"],
        why: "By this glue nothing says dr_mode = \"peripheral\": the controller may become a host, so the kernel lets the ID \
              pin interrupt as well (OTGSC.IDIE, bit 24, in ci_hdrc_probe). The driver here has no host role.",
    },
];

/// The difference with its reasons above it, or the lines that have none.
pub(crate) fn explained(process: &[Section], kernel: &[Section]) -> Result<String, String> {
    let difference = Difference::between(process, kernel);
    let (mut reasons, mut unexplained) = (BTreeSet::new(), Vec::new());
    for line in difference.lines() {
        let text = line.get(1..).unwrap_or_default().trim_start();
        match REASONS.iter().position(|reason| reason.lines.iter().any(|begin| text.starts_with(begin))) {
            Some(reason) => drop(reasons.insert(reason)),
            None => unexplained.push(line),
        }
    }
    if !unexplained.is_empty() {
        return Err(format!("without a reason:\n{}\n\n{difference}", unexplained.join("\n")));
    }
    let reasons: Vec<_> = reasons
        .into_iter()
        .map(|reason| {
            let Reason { lines, why } = &REASONS[reason];
            format!("{}: {why}\n\n", lines.join(", "))
        })
        .collect();
    Ok(format!("{}{difference}", reasons.concat()))
}

#[cfg(test)]
mod tests {
    use super::explained;
    use crate::process;
    use crate::variant::{Function, Variant};
    use qemu::Glue;
    use usb::Speed;

    #[test]
    fn what_has_no_reason_is_told() {
        let by = |glue| process::traffic(Variant { glue, speed: Speed::High, function: Function::Ecm }, "6.1.0");
        let (msm, pci) = (by(Glue::Msm), by(Glue::Pci));
        let told = explained(&msm, &pci).expect_err("the glues differ");
        assert!(told.starts_with("without a reason:\n-  USBMODE = 0000001a\n-  SBUSCFG = 00000000\n"), "{told}");
        assert_eq!(explained(&msm, &msm).as_deref(), Ok("no difference\n"));
    }
}
