//! Data through a table (`sg_pcopy_to_buffer`, `sg_pcopy_from_buffer`, `sg_zero_buffer`).

use bus::CpuAddr;

use super::error::SgError;
use super::table::Table;

impl Table {
    /// Copies data out of the table, from byte `skip` on, until the buffer is full or the table ends; returns how many bytes.
    ///
    /// # Errors
    /// [`SgError::NotMemory`], [`SgError::Lost`]; what lies before it is copied.
    pub fn read(&self, skip: u64, buffer: &mut [u8]) -> Result<usize, SgError> {
        self.each_run(skip, buffer.len(), |at, done, now| self.memory().read(at, &mut buffer[done..done + now]).is_ok())
    }

    /// Copies data into the table in the same way.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn write(&self, skip: u64, data: &[u8]) -> Result<usize, SgError> {
        self.each_run(skip, data.len(), |at, done, now| self.memory().write(at, &data[done..done + now]).is_ok())
    }

    /// Zeroes up to `len` bytes in the same way.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn zero(&self, skip: u64, len: usize) -> Result<usize, SgError> {
        self.each_run(skip, len, |at, _, now| self.memory().fill(at, now as u64, 0).is_ok())
    }

    /// Has `each` work on every run of up to `len` bytes, with what was done before it and its length.
    fn each_run(
        &self,
        mut skip: u64,
        len: usize,
        mut each: impl FnMut(CpuAddr, usize, usize) -> bool,
    ) -> Result<usize, SgError> {
        let mut done = 0;
        for entry in self.entries().take(self.entries as usize) {
            let entry = entry?.1;
            let length = u64::from(entry.length.get());
            if done == len {
                break;
            }
            if skip >= length {
                skip -= length;
                continue;
            }
            let (at, now) = (entry.data().offset(skip), ((length - skip) as usize).min(len - done));
            skip = 0;
            if !each(at, done, now) {
                return Err(SgError::NotMemory { at, len: now as u32 });
            }
            done += now;
        }
        Ok(done)
    }
}
