//! What can be wrong with a pool whose free list lies in the blocks.

use crate::faults::faults;

faults! {
    // Where blocks lie.
    AlignIgnored = "align-ignored", "blocks lie one behind the other, whatever alignment was asked for";
    AlignCapped = "align-capped", "no block is aligned to more than 64 bytes";
    SizeNotRounded = "size-not-rounded", "the size is not rounded up to the alignment: the second block is not aligned";
    SizeRoundedDown = "size-rounded-down", "the size is rounded down to the alignment: blocks overlap";
    BoundaryIgnored = "boundary-ignored", "blocks cross the boundary";
    BoundaryByOne = "boundary-by-one", "a block may cross the boundary with its last byte";
    FirstBoundaryOnly = "first-boundary-only", "only the first boundary in a page is kept";
    OverlapAtBoundary = "overlap-at-boundary", "a block that would cross the boundary ends there, over the one before it";
    PastPageEnd = "past-page-end", "the last block of a page ends behind it";
    LaterPagesShifted = "later-pages-shifted", "blocks of every page but the first lie one alignment further on";
    // What is taken and refused.
    ZeroSizeTaken = "zero-size-taken", "size 0 is taken for 1";
    OddAlignTaken = "odd-align-taken", "an alignment that is no power of two is taken for the next one that is";
    SmallBoundaryTaken = "small-boundary-taken", "a boundary smaller than a block is taken for none";
    LargeSizeRefused = "large-size-refused", "a block larger than a page is refused";
    // Order and distance: no promise, and clients rely on it.
    Descending = "descending", "a fresh page's last block comes first, as in linux-next of January 2023";
    SwappedPairs = "swapped-pairs", "of each two blocks of a fresh page the second comes first";
    PageHeader = "page-header", "each page begins with a header, one block long";
    GuardGap = "guard-gap", "an alignment is left free between blocks";
    // The list.
    DoubleHandOut = "double-hand-out", "now and then a block stays on the list when it is handed out";
    LateUnlink = "late-unlink", "a block leaves the list with the next allocation: its holder writes over the link";
    StaleLink = "stale-link", "now and then a freed block is made the head before it is linked: it links to itself";
    FreedTwice = "freed-twice", "now and then a freed block is put on the list twice";
    LostAtPageEnd = "lost-at-page-end", "a page's last block is lost when it is freed";
    PoisonedLate = "poisoned-late", "freed blocks are poisoned when they are on the list already";
    NarrowLink = "narrow-link", "a link holds 32 bits: the rest is taken from the pool's first page";
    NarrowDma = "narrow-dma", "a link holds 32 bits of the DMA address";
    OffsetOfFirstPage = "offset-of-first-page", "the DMA address is computed by the offset between both addresses of the first page";
    NeighboursDma = "neighbours-dma", "a page's last block has the DMA address of the one before it";
    // Zeroing.
    NotZeroed = "not-zeroed", "nothing is zeroed";
    LinksZeroed = "links-zeroed", "only the links are zeroed";
    ZeroedTooShort = "zeroed-too-short", "whole words of the block are zeroed, and not the rest";
    ZeroedTooLong = "zeroed-too-long", "whole cache lines are zeroed, and what follows the block with them";
    ZeroedAtFirst = "zeroed-at-first", "blocks are zeroed until the first one is freed";
    ZeroedWhenFreed = "zeroed-when-freed", "blocks are zeroed when they are freed, before they are linked, and not when they are handed out";
    ZeroedBeforeUnlink = "zeroed-before-unlink", "a block is zeroed before its link is followed: the list ends there";
    AtomicNotZeroed = "atomic-not-zeroed", "atomic allocations are not zeroed";
    // Pages, failures, the end.
    AtomicSleeps = "atomic-sleeps", "an atomic allocation sleeps for a page";
    AtomicSleepsLater = "atomic-sleeps-later", "an atomic allocation sleeps for every page but the first";
    FailureLeaksPage = "failure-leaks-page", "two pages are taken at a time, and the first is lost when there is no second";
    FailureCounts = "failure-counts", "a failed allocation is counted";
    FailureStays = "failure-stays", "after one failure there is no further page";
    FailureLosesBlock = "failure-loses-block", "the next page is fetched with the last block in hand, which is lost when there is none";
    WaitLosesList = "wait-loses-list", "what others free while a page is fetched is lost";
    WaitLosesCount = "wait-loses-count", "what others free while a page is fetched is not counted";
    MaskIgnored = "mask-ignored", "without a page from its source it takes one anywhere, whatever the device reaches";
    FreeNotCounted = "free-not-counted", "now and then a free is not counted";
    DestroyLeaksPage = "destroy-leaks-page", "the newest page is not given back at the end";
    DestroyedInUse = "destroyed-in-use", "a pool in use is destroyed";
    DestroyedWithOne = "destroyed-with-one", "a pool with one block in use is destroyed";
}
