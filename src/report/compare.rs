//! Two pools side by side, as a changelog takes it: plain columns below 76 characters where names allow it.

use std::io::{self, Write};

use scenarios::{Report, Row, Status};

/// Writes what came of each scenario with pool `before` and with pool `after`, and what differs.
pub(crate) fn write(out: &mut dyn Write, report: &Report, before: &str, after: &str) -> io::Result<()> {
    let of = |pool: &str| report.rows.iter().filter(|row| row.pool == pool).collect::<Vec<&Row>>();
    let rows: Vec<(&Row, &Row)> = of(before).into_iter().zip(of(after)).collect();
    let table: Vec<[String; 3]> =
        rows.iter().map(|(old, new)| [old.scenario.clone(), result(old), result(new)]).collect();
    let head = ["scenario".to_owned(), before.to_owned(), after.to_owned()];
    let width = |column: usize| {
        let cells = table.iter().chain([&head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    for [scenario, old, new] in [&head].into_iter().chain(&table) {
        writeln!(out, "{scenario:<first$}  {old:<second$}  {new}")?;
    }
    let count = |differ: fn(&Row, &Row) -> bool| rows.iter().filter(|(old, new)| differ(old, new)).count();
    let worse = count(|old, new| new.status == Status::Broken && old.status != Status::Broken);
    let better = count(|old, new| new.status != Status::Broken && old.status == Status::Broken);
    let same = count(|old, new| result(old) == result(new));
    let other = rows.len() - worse - better - same;
    // What no row exercised is the end of each one's scope.
    let scope = rows.last().map_or("", |(_, new)| new.scope.covered.as_str()).rsplit("; ").next().unwrap_or_default();
    writeln!(
        out,
        "\n{} rows, in the model: {worse} broke, {better} mended, {other} changed otherwise, {same} as before\n{scope}\n",
        rows.len()
    )
}

/// A row in a few words.
fn result(row: &Row) -> String {
    match row.status {
        Status::Pass => "ok".to_owned(),
        Status::Declared => "as declared".to_owned(),
        Status::Reported => "not judged".to_owned(),
        Status::KnownBad => "known bad".to_owned(),
        Status::Broken => {
            let errno = row.failures.iter().find_map(|detail| detail.errno);
            let promise = || row.failures.iter().find_map(|detail| detail.error.clone());
            let what = errno.map(|errno| format!("error {errno}")).or_else(promise);
            format!("BROKEN{}", what.map_or_else(String::new, |what| format!(" ({what})")))
        }
    }
}
