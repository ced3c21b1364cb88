//! The arguments of `poolproof bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use pool_bench::{Procedure, Set, sg};

use super::KernelC;

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Subcommand, Debug)]
pub(crate) enum What {
    /// DMA pools, by the procedure of the kernel's dmapool_test and others
    Dmapool(Dmapool),
    /// Some rounds of one pool, for `bench dmapool --instructions` to count
    #[command(hide = true)]
    DmapoolRounds(DmapoolRounds),
    /// Scatter-gather tables and the sources of their chunks, by the procedure of July 2019 and by the tables themselves
    Sg(Sg),
    /// Some rounds of one source, for `bench sg --instructions` to count
    #[command(hide = true)]
    SgRounds(SgRounds),
}

#[derive(Args, Debug)]
pub(crate) struct Dmapool {
    /// Measure this pool; may be repeated [default: all of Linux's kind that `poolproof list` names]
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Vec<String>,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    /// What ratios refer to: a pool, measured too if it is not named, or a --dmapool-c [default: the first --dmapool-c, or
    /// linked]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,

    /// What is timed; may be repeated [default: all; with --instructions, dmapool-test]
    #[arg(long, value_name = "NAME", value_parser = procedure())]
    pub(crate) procedure: Vec<Procedure>,

    /// Geometry of the pools, SIZE/ALIGN/BOUNDARY, or the size of one of the kernel's sets; may be repeated [default: the
    /// kernel's: 16/16/0, 64/64/0, 256/256/0, 1024/1024/0, 4096/4096/0, 68/32/4096]
    #[arg(long, value_name = "SET")]
    pub(crate) set: Vec<Set>,

    /// Rounds of a sample, 1 to 10000; times are scaled to 100 [default: 100, or as many as fit into 20 ms]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10000))]
    pub(crate) rounds: Option<u64>,

    /// Samples of each pool for each procedure and set, 3 to 1000; the tables have the median and the middle half
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub(crate) repetitions: u16,

    /// Count instructions a pair of allocation and free by valgrind instead of time: exact, and the same in each run
    #[arg(long, conflicts_with_all = ["rounds", "repetitions"])]
    pub(crate) instructions: bool,

    /// Print one JSON object, samples included
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a plot of the medians: bars, the scale is logarithmic
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct DmapoolRounds {
    #[arg(long, required_unless_present = "dmapool_c", conflicts_with = "dmapool_c")]
    pub(crate) pool: Option<String>,

    #[command(flatten)]
    pub(crate) kernel_c: KernelC,

    #[arg(long, value_parser = procedure())]
    pub(crate) procedure: Procedure,

    #[arg(long)]
    pub(crate) set: Set,

    #[arg(long)]
    pub(crate) rounds: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Sg {
    /// What is timed; may be repeated [default: both]
    #[arg(long, value_name = "NAME", value_parser = sg_procedure())]
    pub(crate) procedure: Vec<sg::Procedure>,

    /// Entries of the tables, 1 to 2048; may be repeated [default: 1, 2, 8, 32, 64, 127, 128, 129, 256, 512, 1024, 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub(crate) entries: Vec<u32>,

    /// Rounds of a sample, 1 to 10000; times are scaled to one [default: as many as fit into 20 ms, at most 1000 of 100
    /// pages and 100 of 100 tables]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10000))]
    pub(crate) rounds: Option<u64>,

    /// Samples of each source, 3 to 1000; the tables have the median and the middle half
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u16).range(3..=1000))]
    pub(crate) repetitions: u16,

    /// Count instructions by valgrind instead of time: exact, and the same in each run
    #[arg(long, conflicts_with_all = ["rounds", "repetitions"])]
    pub(crate) instructions: bool,

    /// Print one JSON object, samples included
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a plot of the medians: bars, the scale is logarithmic
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct SgRounds {
    #[arg(long)]
    pub(crate) source: String,

    #[arg(long, value_parser = sg_procedure())]
    pub(crate) procedure: sg::Procedure,

    #[arg(long)]
    pub(crate) entries: u32,

    #[arg(long)]
    pub(crate) rounds: u64,
}

/// A procedure by its name.
fn sg_procedure() -> impl TypedValueParser<Value = sg::Procedure> {
    let all = sg::Procedure::ALL;
    let known = all.map(|procedure| PossibleValue::new(procedure.name()).help(procedure.about()));
    // What the parser lets through is one of them.
    PossibleValuesParser::new(known)
        .map(move |name| all.into_iter().find(|known| known.name() == name).unwrap_or(all[0]))
}

/// A procedure by its name.
fn procedure() -> impl TypedValueParser<Value = Procedure> {
    let all = Procedure::ALL;
    let known = all.map(|procedure| PossibleValue::new(procedure.name()).help(procedure.about()));
    // What the parser lets through is one of them.
    PossibleValuesParser::new(known)
        .map(move |name| all.into_iter().find(|known| known.name() == name).unwrap_or(all[0]))
}
