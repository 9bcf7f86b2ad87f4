//! What memloom's programs share.

pub mod extract;
