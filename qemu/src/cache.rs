//! What `qemu/setup` brought.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BoardError;

/// The environment variable with the cache's folder, as for `qemu/setup`.
const VARIABLE: &str = "POOLPROOF_CACHE";

/// The folder that `qemu/setup` filled, and the scripts beside it that make more of it.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    scripts: PathBuf,
}

/// A kernel to boot, with its user land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its image, as QEMU's `-kernel` takes it.
    pub image: PathBuf,
    /// The board's user land with the kernel's modules, for `-initrd`.
    pub initramfs: PathBuf,
}

impl Cache {
    /// The cache in `folder`, else where `qemu/setup` puts it: `$POOLPROOF_CACHE`, or `poolproof` in `$XDG_CACHE_HOME` or
    /// `~/.cache`.
    ///
    /// # Errors
    /// [`BoardError::Setup`], if it has no QEMU.
    pub fn open(folder: Option<&Path>) -> Result<Self, BoardError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let folder = folder.map(Path::to_owned).or_else(|| variable(VARIABLE));
        let folder = folder.or_else(|| base().map(|base| base.join("poolproof")));
        let folder = folder.ok_or_else(|| BoardError::Usage("there is no home for a cache: name one".to_owned()))?;
        // The scripts are part of the source tree, as this package is.
        let cache = Self { folder, scripts: PathBuf::from(env!("CARGO_MANIFEST_DIR")) };
        if cache.qemu().exists() {
            Ok(cache)
        } else {
            Err(BoardError::Setup(format!("{} is missing", cache.qemu().display())))
        }
    }

    /// The program that runs QEMU.
    #[must_use]
    pub fn qemu(&self) -> PathBuf {
        self.folder.join("bin/qemu-system-aarch64")
    }

    /// The device tree for Linux's msm glue.
    #[must_use]
    pub fn device_tree(&self) -> PathBuf {
        self.folder.join("board/msm8916.dtb")
    }

    /// A stock kernel by its series, such as `6.1` or `newest`.
    ///
    /// # Errors
    /// [`BoardError::Kernel`], if it was not brought.
    pub fn kernel(&self, series: &str) -> Result<Kernel, BoardError> {
        let folder = self.folder.join("kernels").join(series);
        let kernel = Kernel { image: folder.join("Image"), initramfs: folder.join("initramfs.cpio") };
        if let Some(file) = [&kernel.image, &kernel.initramfs].into_iter().find(|file| !file.is_file()) {
            let run = format!("kernel {series} is not there ({}): run qemu/setup --kernels {series}", file.display());
            return Err(BoardError::Kernel(run));
        }
        Ok(kernel)
    }

    /// A kernel of one's own: its image, and where `make modules_install` put its modules. Its user land is kept in the
    /// cache, and made again when they have changed.
    ///
    /// # Errors
    /// [`BoardError::Kernel`], if one of them is not there; [`BoardError::Script`] if no user land can be made of them.
    pub fn own_kernel(&self, image: &Path, modules: &Path) -> Result<Kernel, BoardError> {
        if !image.is_file() {
            return Err(BoardError::Kernel(format!("{} is no file", image.display())));
        }
        if !has_modules(modules) {
            let expected = "expected lib/modules/VERSION/modules.dep in it, as `make modules_install` writes it";
            return Err(BoardError::Kernel(format!("{} is no folder with modules: {expected}", modules.display())));
        }
        let failed = |error: io::Error| BoardError::System { what: "the cache cannot be written", error };
        let path = modules.canonicalize().map_err(failed)?;
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let folder = self.folder.join("own");
        fs::create_dir_all(&folder).map_err(failed)?;
        let initramfs = folder.join(format!("{:016x}.cpio", hasher.finish()));
        let mut script = Command::new(self.scripts.join("initramfs"));
        script.arg("--modules").arg(modules).arg("--output").arg(&initramfs).arg("--cache").arg(&self.folder);
        let made = script.output().map_err(|error| BoardError::Script(format!("qemu/initramfs: {error}")))?;
        if made.status.success() {
            return Ok(Kernel { image: image.to_owned(), initramfs });
        }
        Err(BoardError::Script(String::from_utf8_lossy(&made.stderr).trim().to_owned()))
    }
}

/// Whether depmod(8) has been in a folder, or in one of its lib/modules.
fn has_modules(folder: &Path) -> bool {
    let versions = fs::read_dir(folder.join("lib/modules")).into_iter().flatten().flatten();
    let mut folders = versions.map(|entry| entry.path()).chain([folder.to_owned()]);
    folders.any(|folder| folder.join("modules.dep").is_file())
}
