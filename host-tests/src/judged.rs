//! What a session has come to, as a run.

use std::time::Duration;

use crate::bench::{Bench, ORIGIN};
use crate::run::{Exercised, LogLine, Run};
use crate::scenario::Expected;
use crate::schedule::Race;
use crate::session::Session;
use crate::sides;
use crate::verdict::{Failure, Verdict, judge};

impl Bench {
    /// Judges what a session has come to.
    pub(crate) fn judge(
        &self,
        name: &str,
        session: &Session,
        expected: Expected,
        failure: Option<Failure>,
        wall_time: Duration,
    ) -> Run {
        let board = &session.board;
        let findings = board.ledger.findings();
        let counts = board.ledger.counts();
        let untested = session.untested.lock().unwrap_or(counts);
        let exercised = Exercised {
            allocations: counts.allocations - untested.allocations,
            accesses: counts.pool_accesses - untested.pool_accesses,
            interrupts: board.line.raised(),
        };
        let race = session.race.as_deref();
        let mut scope = self.scope(&[self.variant()], race.map(|_| self.schedule.to_string()).as_deref());
        for register in board.ledger.unnamed_layouts() {
            scope.covered += &format!("; what {register} points to fits, but the driver named none of it");
        }
        let mut verdict = judge(failure.as_ref(), &findings, expected, exercised.is_enough());
        let mut notes = session.notes.lock().clone();
        // Findings are explained by no limit of a driver.
        let failed = failure.as_ref().filter(|_| verdict == Verdict::Inconclusive && findings.is_empty());
        if let Some(failure) = failed.filter(|_| self.client.is_none())
            && let Some(limit) = self.driver.limit(name, failure)
        {
            verdict = Verdict::AsDeclared;
            notes.push(format!("{}: {failure}", limit.why));
        }
        if verdict == Verdict::AsDeclared {
            let shown = findings.iter().filter(|finding| expected.shown.contains(&finding.name()));
            notes.extend(shown.map(ToString::to_string));
        }
        Run {
            pool: self.policy.name.to_string(),
            scenario: name.to_owned(),
            variant: self.variant(),
            verdict,
            failure,
            expected,
            findings_total: board.ledger.findings_total(),
            findings,
            metadata: self.policy.metadata,
            witnessed: session.witness.accesses(),
            exercised,
            errata: sides::struck(&session.controller),
            log: session.log.lines().into_iter().map(|line| LogLine { at: line.time, text: line.text }).collect(),
            log_origin: ORIGIN,
            board_log: board.log().into_iter().chain(board.ledger.printed_lines()).collect(),
            debugfs: Vec::new(),
            virtual_time: board.clock.now(),
            wall_time,
            schedule: race.map(|_| self.schedule.clone()),
            raced: race.map(Race::raced).unwrap_or_default(),
            scope,
            driver: self.client.map_or_else(|| self.driver.name.to_string(), |client| client.name.to_owned()),
            has_controller: self.client.is_none(),
            assumed_by: self
                .client
                .map_or_else(|| self.driver.assumed_by.to_string(), |client| client.assumed_by.to_owned()),
            page_order: self.page_order,
            mask_bits: self.mask_bits,
            notes,
        }
    }
}
