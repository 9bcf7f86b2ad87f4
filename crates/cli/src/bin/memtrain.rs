//! memtrain: fetch models and fine-tune them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mem_cli::{begin, exit_code, models, sft};

/// Fetch language models and fine-tune them to extract memories
#[derive(Parser)]
#[command(name = "memtrain", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List, fetch and verify the models of the catalogue
    Models(models::Arguments),
    /// Fine-tune an adapter to extract memories, after a recipe
    Sft(sft::Arguments),
}

fn main() -> ExitCode {
    begin();
    exit_code(match Arguments::parse().command {
        Command::Models(arguments) => models::run(arguments),
        Command::Sft(arguments) => sft::run(arguments),
    })
}
