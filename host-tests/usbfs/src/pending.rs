//! An open file's transfers in flight, in the order in which they were started, and by the addresses of their URBs.

use std::collections::{BTreeMap, BTreeSet};

use usb::EndpointAddress;

use crate::open_file::{Bulk, UserUrb};

pub(crate) struct Pending {
    pub(crate) user: UserUrb,
    pub(crate) endpoint: EndpointAddress,
    pub(crate) interface: Option<u8>,
    pub(crate) bulk: Bulk,
    /// The node's number, once `submit` returned.
    pub(crate) id: Option<u64>,
    pub(crate) cancelled: bool,
    /// The client asked for it (USBDEVFS_DISCARDURB): it ends with -ENOENT.
    pub(crate) discarded: bool,
}

/// By key: the later, the greater.
#[derive(Default)]
pub(crate) struct InFlight {
    transfers: BTreeMap<u64, Pending>,
    addresses: BTreeSet<(usize, u64)>,
}

impl InFlight {
    pub(crate) fn insert(&mut self, key: u64, pending: Pending) {
        self.addresses.insert((pending.user.urb, key));
        self.transfers.insert(key, pending);
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<Pending> {
        let pending = self.transfers.remove(&key)?;
        self.addresses.remove(&(pending.user.urb, key));
        Some(pending)
    }

    pub(crate) fn contains(&self, key: u64) -> bool {
        self.transfers.contains_key(&key)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut Pending> {
        self.transfers.get_mut(&key)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.transfers.values_mut()
    }

    /// The keys of those that are wanted.
    pub(crate) fn keys(&self, wanted: impl Fn(&Pending) -> bool) -> Vec<u64> {
        self.transfers.iter().filter(|(_, pending)| wanted(pending)).map(|(key, _)| *key).collect()
    }

    /// The keys of those whose URB lies there.
    pub(crate) fn at(&self, address: usize) -> Vec<u64> {
        self.addresses.range((address, 0)..=(address, u64::MAX)).map(|(_, key)| *key).collect()
    }

    pub(crate) fn take(&mut self) -> BTreeMap<u64, Pending> {
        self.addresses.clear();
        std::mem::take(&mut self.transfers)
    }
}
