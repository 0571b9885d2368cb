//! `leno lab simulate`: compares balancers in simulated time, without a proxy.
//!
//! Leno's balancers are the proxy's code. They choose among simulated servers with random service times. A simulation
//! takes seconds instead of hours, and equal seeds give equal figures everywhere. A simulation cannot show the cost of
//! the proxy itself or the noise of real machines.
//!
//! | file | subject |
//! |---|---|
//! | `engine`, `events` | clients, calls and the order of events |
//! | `server`, `service_time`, `load` | servers, their service times, and callers |
//! | `balancers` | the balancers in comparison |
//! | `tally`, `timeline` | the counted results |
//! | `scenarios` | the scenarios and their goals |
//! | `row`, `table`, `plots` | the output |

mod balancers;
mod engine;
mod events;
mod load;
mod parallel;
mod plots;
mod row;
mod scenarios;
mod server;
mod service_time;
mod table;
mod tally;
mod timeline;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Result, io as io_error};

pub use balancers::Kind;
pub use load::LoadSpec;
pub use scenarios::Scenario;

use load::Method;
use row::Row;
use server::Behaviour;
use service_time::ServiceTime;

/// Options of `leno lab simulate`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Scenarios to run
    #[arg(value_enum, required = true)]
    pub scenarios: Vec<Scenario>,
    /// Balancers to compare: latency, p2c-peak-ewma (as in Linkerd), p2c-least-request (as in Envoy), prequal,
    /// least-request, round-robin, random [default: the first four and round-robin]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub balancers: Vec<Kind>,
    /// Median service times of the healthy endpoints
    #[arg(long, value_delimiter = ',', value_name = "MS", default_value = "5", value_parser = positive)]
    pub median_ms: Vec<f64>,
    /// Additional latency of the slow endpoint
    #[arg(long, value_delimiter = ',', value_name = "MS", default_value = "10,20,50,100,200,500", value_parser = positive)]
    pub skew_ms: Vec<f64>,
    /// Where the slow endpoint loses time
    #[arg(long, value_enum, default_value_t = SlowBy::Added)]
    pub slow_by: SlowBy,
    /// Loads such as closed:200, open:60% (of the healthy endpoints' capacity) or open:2000/s
    #[arg(long, value_delimiter = ',', value_name = "LOADS")]
    pub load: Vec<LoadSpec>,
    /// Numbers of endpoints
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub endpoints: Vec<u32>,
    /// Calls that an endpoint processes at a time [default: fits the load]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workers: Option<u32>,
    /// Runs of each case, with seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Simulated seconds to measure
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive)]
    pub seconds: f64,
    /// File of service times in lines `ms count`, instead of --median-ms
    #[arg(long, value_name = "FILE")]
    pub service_times: Option<PathBuf>,
    /// Directory for results.jsonl, tables.md and plots
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The content of `service_times`.
    #[arg(skip)]
    read: Option<ServiceTime>,
}

/// The effect of the additional latency on a slow endpoint's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SlowBy {
    /// The latency is added after the worker has finished, as by a slow link: the capacity stays the same
    Added,
    /// The latency keeps the worker busy, as on a slow processor: the capacity shrinks
    Occupying,
}

impl SlowBy {
    fn slow_down(self, behaviour: &mut Behaviour, ms: f64) {
        match self {
            Self::Added => behaviour.added_ms = ms,
            Self::Occupying => behaviour.occupying_ms = ms,
        }
    }
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "not a number above 0".to_owned())
}

impl Options {
    fn balancers(&self) -> Vec<Kind> {
        if self.balancers.is_empty() { Kind::COMPARED.to_vec() } else { self.balancers.clone() }
    }

    fn endpoints(&self) -> impl Iterator<Item = usize> {
        self.endpoints.iter().map(|endpoints| *endpoints as usize)
    }

    /// Returns the first, the middle and the last of the requested skews.
    fn few_skews(&self) -> Vec<f64> {
        let mut few = self.skew_ms.clone();
        let middle = few.len() / 2;
        let mut index = 0;
        few.retain(|_| {
            index += 1;
            [1, middle + 1, self.skew_ms.len()].contains(&index)
        });
        few
    }

    fn loads(&self, usual: &[LoadSpec]) -> Vec<LoadSpec> {
        if self.load.is_empty() { usual.to_vec() } else { self.load.clone() }
    }

    fn workers(&self, load: LoadSpec, healthy: usize) -> usize {
        self.workers.map_or_else(|| load.workers(healthy), |workers| workers as usize)
    }

    fn methods(&self) -> Vec<Method> {
        match &self.read {
            Some(service) => vec![Method::only(service.clone())],
            None => self.median_ms.iter().map(|median_ms| Method::only(ServiceTime::lognormal(*median_ms))).collect(),
        }
    }
}

/// Runs the scenarios. Writes their tables, and how many goals each balancer reached, to `out`. With `--out`, also
/// writes result files.
///
/// # Errors
/// - [`Usage`](crate::error::Error::Usage) if the service times are invalid.
/// - [`Io`](crate::error::Error::Io) if a file cannot be read or written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let mut options = options.clone();
    if let Some(path) = &options.service_times {
        options.read = Some(ServiceTime::read(path)?);
    }
    let mut rows = Vec::new();
    for scenario in Scenario::expand(&options.scenarios) {
        let results = scenario.run(&options);
        table::write(&results, out).map_err(io_error("the table"))?;
        rows.extend(results);
    }
    table::write_score(&rows, out).map_err(io_error("the table"))?;
    if let Some(directory) = &options.out {
        write_results(directory, &options, &rows)?;
    }
    Ok(())
}

/// Writes the rows into `directory`: as lines of JSON, as tables and as charts.
fn write_results(directory: &Path, options: &Options, rows: &[Row]) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(io_error(directory.display().to_string()))?;
    let line = |row: &Row| serde_json::to_string(row).expect("numbers and text") + "\n";
    write_file(&directory.join("results.jsonl"), &rows.iter().map(line).collect::<String>())?;
    let (seeds, seconds) = (options.seeds, options.seconds);
    let made_by =
        format!("Made by `leno lab simulate`, seeds 1 to {seeds} together, {seconds} s measured where not said.");
    let tables = format!("# Balancers, simulated\n\n{made_by}\n{}", table::markdown(rows));
    write_file(&directory.join("tables.md"), &tables)?;
    for plot in plots::draw(rows) {
        write_file(&directory.join(plot.file), &plot.svg)?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(io_error(path.display().to_string()))
}
