//! Two traffics, line by line.

use std::fmt;

use chipidea_sim::Section;
use similar::{ChangeTag, TextDiff};

/// Lines of what is the same around what is not.
const CONTEXT: usize = 2;

/// What one traffic has and the other has not. `Display` is a unified diff that has the section's title where others have
/// line numbers, so that traffics of other lengths may have the same difference.
pub(crate) struct Difference {
    old: String,
    new: String,
}

impl Difference {
    pub(crate) fn between(old: &[Section], new: &[Section]) -> Self {
        Self { old: text(old), new: text(new) }
    }

    /// The lines that only one has, with `-` or `+` before them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let diff = TextDiff::from_lines(&self.old, &self.new);
        let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
        changes.map(|change| format!("{}{}", change.tag(), change.value().trim_end())).collect()
    }
}

/// Sections with an empty line between them.
pub(crate) fn text(sections: &[Section]) -> String {
    sections.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let diff = TextDiff::from_lines(&self.old, &self.new);
        let lines: Vec<&str> = self.old.lines().collect();
        let groups = diff.grouped_ops(CONTEXT);
        if groups.is_empty() {
            return writeln!(f, "no difference");
        }
        for group in groups {
            let begin = group.first().map_or(0, |op| op.old_range().start);
            let is_title = |line: &&&str| !line.is_empty() && !line.starts_with(' ');
            let title = lines[..(begin + CONTEXT + 1).min(lines.len())].iter().rev().find(is_title);
            writeln!(f, "@@ {} @@", title.unwrap_or(&""))?;
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                writeln!(f, "{}", format!("{}{}", change.tag(), change.value().trim_end()).trim_end())?;
            }
        }
        Ok(())
    }
}
