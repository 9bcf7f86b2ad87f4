//! What memloom's programs share.
