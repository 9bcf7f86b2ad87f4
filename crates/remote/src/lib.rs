//! The only code of memloom that opens a socket: models are fetched here.
