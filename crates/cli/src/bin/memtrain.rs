//! memtrain: data, fine-tuning, models.

fn main() {}
