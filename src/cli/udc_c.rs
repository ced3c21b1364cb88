//! The kernel's own driver of the controller, for commands that have a driver under test.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct UdcC {
    /// Test this drivers/usb/chipidea/udc.c of Linux 6.1, or that of this kernel tree, as the driver: compiled unmodified for user space,
    /// with glue in the place of the rest of the kernel. `poolproof list` says what it does not reach. Exit status 125: it is
    /// absent or does not compile
    #[arg(long, value_name = "PATH")]
    pub(crate) udc_c: Option<PathBuf>,

    /// Headers of Linux 6.1 that udc.c is compiled against: Debian's linux-headers-VERSION-amd64 (with the -common beside it), or a kernel
    /// tree that was built for x86 [default: the tree of --udc-c]
    #[arg(long, value_name = "DIR", requires = "udc_c")]
    pub(crate) headers: Option<PathBuf>,
}
