//! Where blocks lie in a page, with the faults of that.

use pool::{CreateError, Geometry, Layout};

use super::fault::Fault;

/// Smallest block in bytes: two links.
pub(super) const SMALLEST: u64 = 16;

/// How a pool with this fault lays `asked` out.
pub(super) fn layout(asked: Geometry, page_size: u64, fault: Option<Fault>) -> Result<Layout, CreateError> {
    let Geometry { size, align, boundary } = asked;
    if fault == Some(Fault::LargeSizeRefused) && size > page_size {
        return Err(CreateError::Size { size });
    }
    let understood = match fault {
        Some(Fault::AlignIgnored) => Geometry { align: 0, ..asked },
        Some(Fault::AlignCapped) => Geometry { align: align.min(64), ..asked },
        Some(Fault::BoundaryIgnored) => Geometry { boundary: 0, ..asked },
        Some(Fault::ZeroSizeTaken) => Geometry { size: size.max(1), ..asked },
        Some(Fault::OddAlignTaken) => Geometry { align: align.next_power_of_two(), ..asked },
        Some(Fault::SmallBoundaryTaken) if boundary < size.next_multiple_of(align.max(1)) => {
            Geometry { boundary: 0, ..asked }
        }
        _ => asked,
    };
    let layout = understood.layout(SMALLEST, page_size)?;
    Ok(match fault {
        Some(Fault::SizeNotRounded) => Layout { size: size.max(SMALLEST), ..layout },
        Some(Fault::SizeRoundedDown) => Layout { size: (size - size % layout.align).max(layout.align), ..layout },
        Some(Fault::GuardGap) if layout.size * 2 < layout.boundary => {
            Layout { size: layout.size + layout.align, ..layout }
        }
        _ => layout,
    })
}

/// Offsets of a page's blocks, ascending.
pub(super) fn offsets(layout: Layout, fault: Option<Fault>) -> Vec<u64> {
    let Layout { size, allocation, boundary, .. } = layout;
    let has = |one| fault == Some(one);
    let mut offsets = Vec::new();
    let (mut offset, mut next_boundary) = (0, boundary);
    while offset < allocation {
        let end = offset + size;
        let over = end - u64::from(has(Fault::BoundaryByOne));
        if over > next_boundary && next_boundary < allocation {
            offset = if has(Fault::OverlapAtBoundary) { next_boundary - size } else { next_boundary };
            next_boundary = if has(Fault::FirstBoundaryOnly) { allocation } else { next_boundary + boundary };
        }
        if offset + size > allocation && !has(Fault::PastPageEnd) {
            break;
        }
        offsets.push(offset);
        offset += size;
    }
    offsets
}
