//! String descriptors with languages (Linux: `struct usb_gadget_strings`).

use usb::ch9::{language_descriptor, string_descriptor};

/// US English, the language that Linux's gadgets speak (USB-IF language identifiers).
pub const US_ENGLISH: u16 = 0x0409;

/// The text of a string descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// As it stands.
    Fixed(String),
    /// Followed by the name of the controller's driver, as composite.c's `composite_default_mfr` makes it.
    WithDriver(String),
    /// None: the index is taken, and asking for it is refused.
    Absent,
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Fixed(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Fixed(text)
    }
}

/// A gadget's strings: for each language a text for index 1, 2 and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    languages: Vec<(u16, Vec<Text>)>,
}

impl Strings {
    /// No strings at all: also string 0, the list of languages, is refused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `texts` as the strings 1, 2 and so on of `language`. A language that is there already is replaced.
    #[must_use]
    pub fn with(mut self, language: u16, texts: impl IntoIterator<Item = Text>) -> Self {
        let texts = texts.into_iter().collect();
        match self.languages.iter_mut().find(|(known, _)| *known == language) {
            Some((_, old)) => *old = texts,
            None => self.languages.push((language, texts)),
        }
        self
    }

    /// The descriptor of string `index` in `language` (USB 2.0 §9.6.7); index 0 lists the languages. `driver` is the
    /// name of the controller's driver. `None` if there is no such language or string.
    #[must_use]
    pub fn descriptor(&self, index: u8, language: u16, driver: &str) -> Option<Vec<u8>> {
        if index == 0 {
            let languages: Vec<u16> = self.languages.iter().map(|(language, _)| *language).collect();
            return (!languages.is_empty()).then(|| language_descriptor(&languages));
        }
        let (_, texts) = self.languages.iter().find(|(known, _)| *known == language)?;
        match texts.get(usize::from(index) - 1)? {
            Text::Fixed(text) => Some(string_descriptor(text)),
            Text::WithDriver(text) => Some(string_descriptor(&format!("{text}{driver}"))),
            Text::Absent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use usb::ch9::string_text;

    use super::*;

    #[test]
    fn each_language_has_its_own_texts() {
        const GERMAN: u16 = 0x0407;
        let strings = Strings::new()
            .with(US_ENGLISH, ["Board".into(), Text::WithDriver("on ".to_owned()), Text::Absent, "last".into()])
            .with(GERMAN, ["old".into()])
            .with(GERMAN, ["Platine".into()]);
        let text = |index, language| strings.descriptor(index, language, "dummy").map(|bytes| string_text(&bytes));
        assert_eq!(strings.descriptor(0, 0, "dummy"), Some(vec![6, 3, 0x09, 0x04, 0x07, 0x04]));
        assert_eq!(text(1, US_ENGLISH).as_deref(), Some("Board"));
        assert_eq!(text(2, US_ENGLISH).as_deref(), Some("on dummy"));
        assert_eq!(text(3, US_ENGLISH), None);
        assert_eq!(text(4, US_ENGLISH).as_deref(), Some("last"));
        assert_eq!(text(1, GERMAN).as_deref(), Some("Platine"));
        assert_eq!(text(2, GERMAN), None);
        assert_eq!(text(1, 0), None);
        assert_eq!(Strings::new().descriptor(0, 0, "dummy"), None);
    }
}
