//! What both sides can do, as they tell it in their first messages.

use serde_json::{Map, Value, json};

use crate::error::Malformed;
use crate::protocol::{MAJOR, MAX_DESCRIPTORS, MAX_DMA_MAPS, MAX_TRANSFER, MINOR, Version};

const CAPABILITIES: &str = "capabilities";
const PAGE_SIZE: u64 = 4096;

/// What the client said, and what it is answered.
#[derive(Debug)]
pub(crate) struct Negotiated {
    pub(crate) minor: u16,
    /// Most data in one message to the client.
    pub(crate) max_transfer: usize,
    /// The version data of the reply, with its NUL; empty if the client sent none.
    pub(crate) data: Vec<u8>,
}

/// Answers a client's version.
///
/// The reply has capabilities that the client named and no others, and no number above the client's: QEMU takes no
/// reply that is longer than its request.
pub(crate) fn negotiate(version: &Version, data: &[u8]) -> Result<Negotiated, Malformed> {
    let (major, minor) = (version.major.get(), version.minor.get());
    if major != MAJOR {
        return Err(Malformed::Major(major, minor));
    }
    let minor = minor.min(MINOR);
    if data.is_empty() {
        return Ok(Negotiated { minor, max_transfer: MAX_TRANSFER, data: Vec::new() });
    }
    let bad = |why: &str| Malformed::Capabilities(why.to_owned());
    let text = data.strip_suffix(&[0]).ok_or_else(|| bad("no NUL at the end"))?;
    let proposed: Value = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
    let proposed = proposed.as_object().ok_or_else(|| bad("not an object"))?;
    let mut reply = Map::new();
    let mut max_transfer = MAX_TRANSFER;
    if let Some(proposed) = proposed.get(CAPABILITIES) {
        let proposed = proposed.as_object().ok_or_else(|| bad("not an object"))?;
        let number = |name: &str| match proposed.get(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| bad(&format!("{name} is not a number"))),
        };
        let mut answer = Map::new();
        let ours = [
            ("max_msg_fds", MAX_DESCRIPTORS as u64),
            ("max_data_xfer_size", MAX_TRANSFER as u64),
            ("max_dma_maps", MAX_DMA_MAPS as u64),
        ];
        for (name, most) in ours {
            if let Some(theirs) = number(name)? {
                answer.insert(name.to_owned(), theirs.min(most).into());
            }
        }
        if number("pgsizes")?.is_some_and(|sizes| sizes & PAGE_SIZE != 0) {
            answer.insert("pgsizes".to_owned(), PAGE_SIZE.into());
        }
        if proposed.get("write_multiple") == Some(&json!(true)) {
            answer.insert("write_multiple".to_owned(), json!(true));
        }
        if let Some(theirs) = number("max_data_xfer_size")? {
            max_transfer = usize::try_from(theirs).unwrap_or(MAX_TRANSFER).min(MAX_TRANSFER);
        }
        reply.insert(CAPABILITIES.to_owned(), answer.into());
    }
    let mut data = Value::from(reply).to_string().into_bytes();
    data.push(0);
    Ok(Negotiated { minor, max_transfer, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As QEMU 11.1 sends it (hw/vfio-user/proxy.c, `caps_json`).
    const QEMU: &str = r#"{"capabilities": {"migration": {"max_bitmap_size": 268435456, "pgsize": 4096}, "max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535, "write_multiple": true}}"#;

    fn of(minor: u16, json: &str) -> Result<Negotiated, Malformed> {
        let version = Version { major: MAJOR.into(), minor: minor.into() };
        negotiate(&version, format!("{json}\0").as_bytes())
    }

    #[test]
    fn qemu_gets_what_it_knows_and_no_more() {
        let answer = of(0, QEMU).expect("fine");
        assert_eq!((answer.minor, answer.max_transfer), (0, MAX_TRANSFER));
        assert!(answer.data.len() <= QEMU.len() + 1, "QEMU takes no longer reply");
        let json: Value = serde_json::from_slice(&answer.data[..answer.data.len() - 1]).expect("JSON and a NUL");
        let expected = json!({"capabilities": {"max_msg_fds": 16, "max_data_xfer_size": 1048576, "pgsizes": 4096,
            "max_dma_maps": 65535, "write_multiple": true}});
        assert_eq!(json, expected);
    }

    #[test]
    fn a_smaller_client_is_answered_in_its_own_terms() {
        let answer = of(7, r#"{"capabilities":{"max_msg_fds":1,"max_data_xfer_size":64}}"#).expect("fine");
        assert_eq!((answer.minor, answer.max_transfer), (1, 64));
        assert_eq!(answer.data, b"{\"capabilities\":{\"max_data_xfer_size\":64,\"max_msg_fds\":1}}\0");
        assert_eq!(of(0, "{}").expect("fine").data, b"{}\0");
    }

    #[test]
    fn nonsense_is_refused() {
        for json in ["", "[]", "{", r#"{"capabilities":1}"#, r#"{"capabilities":{"max_msg_fds":"x"}}"#] {
            assert!(matches!(of(0, json), Err(Malformed::Capabilities(_))), "{json}");
        }
        let version = Version { major: 1.into(), minor: 0.into() };
        assert!(matches!(negotiate(&version, &[]), Err(Malformed::Major(1, 0))));
        let version = Version { major: 0.into(), minor: 0.into() };
        assert!(matches!(negotiate(&version, b"{}"), Err(Malformed::Capabilities(_))), "no NUL");
    }
}
