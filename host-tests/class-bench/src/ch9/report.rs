//! What a chapter 9 check found.

use std::fmt;

use crate::trace::TraceLine;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As the specification says.
    Passed,
    /// Not as the specification says.
    Failed,
    /// Not as the specification says, and usb-device's doing: no class can mend it. With the reason.
    KnownDeviation(&'static str),
    /// Refused, as the specification allows here. With what allows it.
    Refused(&'static str),
    /// The specification leaves the answer open: the device survived it.
    Unspecified,
    /// There is nothing to try it on. With the reason.
    Skipped(&'static str),
}

impl Outcome {
    /// The word that reports show.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::KnownDeviation(_) => "known deviation",
            Self::Refused(_) => "refused",
            Self::Unspecified => "unspecified",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The reason that it carries.
    #[must_use]
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::KnownDeviation(reason) | Self::Refused(reason) | Self::Skipped(reason) => Some(reason),
            Self::Passed | Self::Failed | Self::Unspecified => None,
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name, the same in every run: `address.get_status.endpoint`.
    pub name: String,
    /// Where the specification says so.
    pub citation: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// What was asked and what came.
    pub detail: String,
    /// The last packets, when it failed.
    pub packets: Vec<TraceLine>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16} {} [{}]: {}", self.outcome.word(), self.name, self.citation, self.detail)?;
        if let Some(reason) = self.outcome.reason() {
            write!(f, " ({reason})")?;
        }
        for line in &self.packets {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// All checks, in the order in which they ran.
///
/// Its text shows what did not simply pass; with `{:#}` it shows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checks.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether no check failed. Known deviations are not failures; [`Report::deviations`] has them.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.outcome == Outcome::Failed)
    }

    /// What usb-device does otherwise than the specification.
    pub fn deviations(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::KnownDeviation(_)))
    }

    /// The check of that name.
    #[must_use]
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    /// The report as JUnit XML. A failure is a failure; known deviations, refusals and what was not tried are skipped tests
    /// with a message. It holds no times: two equal reports give equal texts.
    #[cfg(feature = "junit")]
    #[must_use]
    pub fn junit(&self, suite: &str) -> String {
        use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

        let mut cases = TestSuite::new(suite);
        for check in &self.checks {
            let mut status = match check.outcome {
                Outcome::Passed | Outcome::Unspecified => TestCaseStatus::success(),
                Outcome::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Outcome::KnownDeviation(_) | Outcome::Refused(_) | Outcome::Skipped(_) => TestCaseStatus::skipped(),
            };
            if !matches!(check.outcome, Outcome::Passed | Outcome::Unspecified) {
                status.set_message(check.to_string().lines().next().unwrap_or_default());
            }
            let mut case = TestCase::new(check.name.clone(), status);
            case.set_classname(check.citation);
            case.set_system_out(check.to_string());
            cases.add_test_case(case);
        }
        let mut report = Report::new("USB 2.0 chapter 9");
        report.add_test_suite(cases);
        // Writing to a string does not fail.
        report.to_string().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let plain = matches!(check.outcome, Outcome::Passed | Outcome::Unspecified | Outcome::Skipped(_));
            if f.alternate() || !plain {
                writeln!(f, "{check}")?;
            }
        }
        let count = |which: fn(Outcome) -> bool| self.checks.iter().filter(|check| which(check.outcome)).count();
        write!(
            f,
            "{} checks: {} failed, {} known deviations, {} refused as allowed, {} skipped",
            self.checks.len(),
            count(|outcome| outcome == Outcome::Failed),
            count(|outcome| matches!(outcome, Outcome::KnownDeviation(_))),
            count(|outcome| matches!(outcome, Outcome::Refused(_))),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        )
    }
}
