//! Time in memories: values and their normal forms, limits of a query, time zones.
//!
//! Nothing in [`value`], [`limit`] and [`zone`] knows a language, except the words that begin a recurrence.

pub mod resolve;
pub mod value;
