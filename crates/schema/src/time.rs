//! Time in memories: values and their normal forms, limits of a query, time zones.
//!
//! Of language, [`value`], [`limit`] and [`zone`] know only the words that begin a recurrence and the English ones of
//! limits and bounds (`before`, `since`).

pub mod limit;
pub mod resolve;
pub mod value;
pub mod words;
pub mod zone;
