//! `poolproof explain`.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use scenarios::explain::{Explanation, Source, Verdict, Weight, explain as read_and_judge};
use serde_json::{Value, json};

use crate::cli::{Device, Explain, ExplainFormat};
use crate::error::Error;
use crate::exit::Exit;

pub(crate) fn explain(out: &mut dyn Write, arguments: &Explain) -> Result<Exit, Error> {
    let mut files = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        files.push((file.display().to_string(), text(file)?));
    }
    let sources: Vec<Source<'_>> = files.iter().map(|(name, text)| Source { name, text }).collect();
    let explanation = match arguments.device {
        Device::Chipidea => read_and_judge(&sources).map_err(|nothing| Error::usage(nothing.to_string()))?,
    };
    match arguments.format {
        ExplainFormat::Text => writeln!(out, "{explanation}")?,
        ExplainFormat::Json => {
            let text = serde_json::to_string_pretty(&object(&explanation)).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        }
    }
    Ok(if explanation.verdict() == Verdict::NoFailureFound { Exit::NoFailure } else { Exit::Broken })
}

/// A file's text, or with `-` that of standard input. A serial console has no encoding.
fn text(file: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        fs::read(file).map(|read| bytes = read)
    };
    read.map_err(|error| Error::usage(format!("{} cannot be read: {error}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
