//! An SVG document as it is written: shapes, text, and fills that a black-and-white printer tells apart.

use std::fmt::Write;

/// Fills that differ without colour, in an order in which neighbours differ most. With more bars they come again.
const FILLS: [&str; 10] = [
    r##"<rect width="8" height="8" fill="#404040"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/><path d="M-2 2L2 -2M-2 10L10 -2M6 10L10 6" stroke="#000" stroke-width="1.2"/>"##,
    r##"<rect width="8" height="8" fill="#b8b8b8"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/><path d="M0 2H8M0 6H8" stroke="#000" stroke-width="1.2"/>"##,
    r##"<rect width="8" height="8" fill="#808080"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/><path d="M0 0L8 8M8 0L0 8" stroke="#000"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/><path d="M1 1h2v2h-2zM5 5h2v2h-2z" fill="#000"/>"##,
    r##"<rect width="8" height="8" fill="#404040"/><path d="M-2 6L2 10M-2 -2L10 10M6 -2L10 2" stroke="#fff" stroke-width="1.4"/>"##,
    r##"<rect width="8" height="8" fill="#fff"/><path d="M2 0V8M6 0V8" stroke="#000" stroke-width="1.2"/>"##,
];

/// Where a text's position is in it.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A document that grows.
pub(super) struct Svg {
    body: String,
    width: f64,
}

impl Svg {
    pub(super) const fn new(width: f64) -> Self {
        Self { body: String::new(), width }
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// A bar from its upper left corner, with the fill of that number.
    pub(super) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: usize) {
        let fill = fill % FILLS.len();
        self.push(format_args!(
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="url(#fill{fill})" stroke="#000" stroke-width=".8"/>"##
        ));
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), grey: &str) {
        self.push(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{grey}" stroke-width=".8"/>"#
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.push(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Text that runs upwards.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        self.push(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" font-size="{size}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// The whole document, `height` pixels high.
    pub(super) fn finish(self, title: &str, height: f64) -> String {
        let (width, title, body) = (self.width, escaped(title), self.body);
        let fills = FILLS.iter().enumerate().map(|(number, fill)| {
            format!(r#"<pattern id="fill{number}" width="8" height="8" patternUnits="userSpaceOnUse">{fill}</pattern>"#)
        });
        let fills: Vec<String> = fills.collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"#000\">\n\
             <title>{title}</title>\n<defs>\n{}\n</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
            fills.join("\n")
        )
    }
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Text between tags. Control characters are no XML.
fn escaped(text: &str) -> String {
    let printable: String = text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
