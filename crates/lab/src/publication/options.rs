//! The options of `leno lab publish`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::cost::Prices;
use super::name::Name;
use crate::error::{Error, Result};
use crate::experiment::record::TargetKind;
use crate::targets::Programs;

/// Options of `leno lab publish`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Published comparison to measure again
    #[arg(value_enum)]
    pub name: Name,
    /// Durations and repeats: quick ends within 15 minutes on two CPUs, full has the publication's durations and repeats
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Directory for the results, new or empty [default: lab-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Conditions to measure, by the names of their targets; Leno is always measured [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub targets: Option<Vec<TargetKind>>,
    /// Measured time of each run, in s [default: the time of --scale]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub duration_s: Option<u32>,
    /// Time of each run before counting begins, in s [default: the time of --scale]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(..=600))]
    pub warm_up_s: Option<u32>,
    /// Number of repeats [default: the number of --scale]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Seed for the order of the runs and for the slow backends [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub prices: Prices,
    #[command(flatten)]
    pub programs: Programs,
}

/// How long and how often a publication's experiments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Short runs and few repeats: at most 15 minutes on two CPUs
    Quick,
    /// The publication's durations and repeats: hours
    Full,
}

impl Scale {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

impl Options {
    /// Options in which only the name and the scale are set.
    pub(super) fn plain(name: Name, scale: Scale) -> Self {
        Self {
            name,
            scale,
            out: None,
            targets: None,
            duration_s: None,
            warm_up_s: None,
            repeat: None,
            seed: None,
            prices: Prices::default(),
            programs: Programs::default(),
        }
    }

    pub(super) fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("lab-{}", self.name).into())
    }

    /// The conditions to measure, in the publication's order.
    ///
    /// # Errors
    /// If `--targets` names a target that is no condition of the publication.
    pub(super) fn conditions(&self) -> Result<Vec<TargetKind>> {
        let all = self.name.publication().conditions.iter().map(|it| it.target);
        let Some(asked) = &self.targets else { return Ok(all.collect()) };
        if let Some(stranger) = asked.iter().find(|&&target| !all.clone().any(|it| it == target)) {
            let names = all.map(TargetKind::name).collect::<Vec<_>>().join(", ");
            let what = format!("--targets {stranger} is no condition of {}; choose among {names}", self.name);
            return Err(Error::Usage(what));
        }
        Ok(all.filter(|target| target.is_leno() || asked.contains(target)).collect())
    }

    /// Lists the given options that replace a duration or the number of repeats of the scale, each as a sentence for
    /// the report.
    pub(super) fn changes(&self) -> Vec<String> {
        let changes = [
            self.duration_s.map(|s| format!("--duration-s {s}: each run was measured for {s} s.")),
            self.warm_up_s
                .map(|s| format!("--warm-up-s {s}: the warm-up of each run with a fixed warm-up took {s} s.")),
            self.repeat.map(|times| format!("--repeat {times}: number of repeats.")),
        ];
        changes.into_iter().flatten().collect()
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
