//! memtrain: fetch models and fine-tune them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mem_cli::{exit_code, models};

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
}

fn main() -> ExitCode {
    exit_code(match Arguments::parse().command {
        Command::Models(arguments) => models::run(arguments),
    })
}
