//! `poolproof explain`.

use std::io::{self, Write};

use scenarios::explain::{self, Explanation, Source, Weight, explain as read_and_judge};
use scenarios::{Observed, Verdict};
use serde_json::{Value, json};

use crate::cli::{Device, Explain, ExplainFormat};
use crate::error::Error;
use crate::exit::Exit;
use crate::input;

pub(crate) fn explain(out: &mut dyn Write, arguments: &Explain) -> Result<Exit, Error> {
    let Device::Chipidea = arguments.device;
    let mut files = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        let text = input::text(file);
        let text = text.map_err(|error| Error::usage(format!("{} cannot be read: {error}", file.display())))?;
        files.push((file.display().to_string(), text));
    }
    let logs: Vec<(&str, Observed)> =
        files.iter().filter_map(|(name, text)| Some((name.as_str(), Observed::in_text(text)?))).collect();
    let sources = files.iter().map(|(name, text)| Source { name, text });
    // A log of the pools' is one of the board's files only if it has something of the controller in it, too.
    let is_other =
        |source: &Source<'_>| logs.iter().any(|(name, _)| *name == source.name) && read_and_judge(&[*source]).is_err();
    let sources: Vec<Source<'_>> = sources.filter(|source| !is_other(source)).collect();
    let explanation = match read_and_judge(&sources) {
        Ok(explanation) => Some(explanation),
        Err(_) if !logs.is_empty() => None,
        Err(nothing) => return Err(Error::usage(nothing.to_string())),
    };
    match arguments.format {
        ExplainFormat::Text => {
            explanation.iter().try_for_each(|explanation| writeln!(out, "{explanation}"))?;
            for (name, observed) in &logs {
                writeln!(out, "\nallocations, of {name}\n{observed}")?;
            }
        }
        ExplainFormat::Json => {
            let text = serde_json::to_string_pretty(&whole(explanation.as_ref(), &logs)).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        }
    }
    let board_is_fine = explanation.is_none_or(|explanation| explanation.verdict() == explain::Verdict::NoFailureFound);
    let logs_are_fine = logs.iter().all(|(_, observed)| observed.verdict == Verdict::NoFailureFound);
    Ok(if board_is_fine && logs_are_fine { Exit::NoFailure } else { Exit::Broken })
}

fn whole(explanation: Option<&Explanation>, logs: &[(&str, Observed)]) -> Value {
    let allocations: Vec<Value> = logs
        .iter()
        .map(|(name, observed)| json!({"file": name, "verdict": observed.verdict.to_string(), "lines": observed.lines()}))
        .collect();
    let mut whole = explanation.map_or_else(|| json!({}), object);
    whole["allocations"] = allocations.into();
    whole
}

fn object(explanation: &Explanation) -> Value {
    let sections: Vec<Value> = explanation
        .sections
        .iter()
        .map(|section| {
            let statements: Vec<Value> = section
                .statements
                .iter()
                .map(|statement| {
                    let weight = match statement.weight {
                        Weight::Fine => "fine",
                        Weight::Odd => "odd",
                        Weight::Wrong(_) => "wrong",
                    };
                    json!({"weight": weight, "text": statement.text, "evidence": statement.evidence})
                })
                .collect();
            json!({"title": section.title, "statements": statements})
        })
        .collect();
    json!({
        "verdict": explanation.verdict().name(),
        "reasons": explanation.wrong().map(|statement| &statement.text).collect::<Vec<_>>(),
        "read": explanation.read,
        "not_read": explanation.gaps,
        "sections": sections,
        "scope": Explanation::SCOPE,
    })
}
