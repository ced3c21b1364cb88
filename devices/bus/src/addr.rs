//! Addresses. The two kinds never mix: a bench gives them different values for the same byte.

use std::fmt;

/// An address as a device puts it on its bus (`dma_addr_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DmaAddr(pub u64);

/// An address as the driver's processor uses it (a kernel virtual address).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuAddr(pub u64);

macro_rules! address {
    ($name:ident) => {
        impl $name {
            /// The address `bytes` further on, wrapping at 2^64 as a bus adder would.
            #[must_use]
            pub const fn offset(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// Whether the address is a multiple of `align`, a power of two.
            #[must_use]
            pub const fn is_aligned(self, align: u64) -> bool {
                self.0 & (align - 1) == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address!(DmaAddr);
address!(CpuAddr);
