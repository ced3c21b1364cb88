//! What can be wrong with a pool that numbers its blocks.

use crate::faults::faults;

faults! {
    FreesNeighbour = "frees-neighbour", "now and then a free is one of the block behind";
    NarrowNumber = "narrow-number", "the stack of free blocks holds 16 bits of their number";
    NarrowPage = "narrow-page", "the directory holds 8 bits of a page's number";
    FramesCollide = "frames-collide", "the directory finds a page by 8 bits of its frame";
    PagesAdjacent = "pages-adjacent", "a block's address is computed as if all pages followed the first";
    NumbersBeforeWait = "numbers-before-wait", "a page gets numbers before it is fetched, as others do meanwhile";
    FreedPageListed = "freed-page-listed", "blocks of a page that was given back stay on the stack";
    PageFreedInUse = "page-freed-in-use", "a page with one block in use is given back";
    PageFreedTwice = "page-freed-twice", "a page that was given back is given back again at the end";
    PageFreedLate = "page-freed-late", "a page that becomes idle is given back when the next one does, in use or not";
    RefusalCounts = "refusal-counts", "a double free is refused when it is counted already";
    RefusalPushes = "refusal-pushes", "a double free is refused when the block is on the stack already";
    ForeignAccepted = "foreign-accepted", "a block of another pool is taken for one of the first page";
    DestroyLooksOnce = "destroy-looks-once", "a pool is destroyed when its newest page is idle";
    CreateKeepsPage = "create-keeps-page", "a page is fetched before the geometry is looked at, and kept when it is refused";
}
