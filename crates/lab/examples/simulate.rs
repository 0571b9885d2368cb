//! The simulation without the rest of the tool.

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: leno_lab::simulate::Options,
}

fn main() -> Result<(), leno_lab::error::Error> {
    leno_lab::simulate::run(&Arguments::parse().options, &mut std::io::stdout().lock())
}
