//! Time in memories: values and their normal forms, limits of a query, time zones; what sentences say about time, and
//! whether a memory's time agrees with them.
//!
//! Of language, [`value`], [`limit`] and [`zone`] know only the words that begin a recurrence and the English ones of
//! limits and bounds (`before`, `since`).

pub mod check;
pub mod evidence;
pub mod limit;
pub mod resolve;
pub mod rewrite;
pub mod value;
pub mod zone;
