//! memextract: transcripts in, records out.

fn main() {}
