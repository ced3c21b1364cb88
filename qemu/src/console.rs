//! The board's console: the kernel's log, and in it what the board's user land says.

/// What the user land says: a line of the kernel's log that begins with `poolproof: `. `qemu/guest/init` has them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// It runs, and says what it is.
    Board,
    /// A step failed; which, in words.
    Failure(String),
    /// It takes commands.
    Ready,
    /// A command has ended well; its name.
    Done(String),
    /// Everything else: `udc ready ci_hdrc.0 glue msm`, `gadget ether bound`, `state configured`, `usb0 up …`.
    Other(String),
}

impl Marker {
    /// The marker in a line of the console, if it is one.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // The kernel's time, and with CONFIG_PRINTK_CALLER who printed it.
        let mut rest = line.trim_end();
        while let Some((_, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            rest = after.trim_start();
        }
        let text = rest.strip_prefix("poolproof: ").filter(|_| rest.len() < line.trim_end().len())?;
        let after = |word: &str| text.strip_prefix(word).map(|rest| rest.trim_start().to_owned());
        Some(match text {
            "ready" => Self::Ready,
            _ if text.starts_with("board ") => Self::Board,
            _ => after("failure ")
                .map(Self::Failure)
                .or_else(|| after("done ").map(Self::Done))
                .unwrap_or_else(|| Self::Other(text.to_owned())),
        })
    }
}

/// What a kernel says before it stops for good.
pub(crate) fn is_fatal(line: &str) -> bool {
    ["Kernel panic - not syncing", "Internal error: Oops", "Unable to handle kernel"]
        .iter()
        .any(|text| line.contains(text))
}

#[cfg(test)]
mod tests {
    use super::Marker;

    #[test]
    fn markers_stand_behind_the_kernels_time() {
        let other = |text: &str| Some(Marker::Other(text.to_owned()));
        assert_eq!(
            Marker::parse("[    2.983121] poolproof: udc ready ci_hdrc.0 glue msm\r"),
            other("udc ready ci_hdrc.0 glue msm")
        );
        assert_eq!(Marker::parse("[    2.9][  T1] poolproof: ready"), Some(Marker::Ready));
        assert_eq!(
            Marker::parse("[1.0] poolproof: failure module x: y"),
            Some(Marker::Failure("module x: y".to_owned()))
        );
        assert_eq!(Marker::parse("[1.0] poolproof: done state"), Some(Marker::Done("state".to_owned())));
        assert_eq!(Marker::parse("[1.0] poolproof: board 6.1.0 glue msm gadget ether"), Some(Marker::Board));
        for line in ["", "poolproof: ready", "[1.0] usb poolproof: ready", "[1.0", "[1.0] "] {
            assert_eq!(Marker::parse(line), None, "{line:?}");
        }
    }
}
