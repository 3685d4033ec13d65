//! The types of columns: small numbers, words of a dictionary, and texts.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, RwLock};

/// A logical time of the protocol.
pub type Time = u64;
/// An identifier. Those of TPC-H fit in 32 bits up to scale factor 700; a larger one is an error when it is read.
pub type Key = u32;
/// A decimal number in hundredths.
pub type Money = i64;
/// Days since 1970-01-01.
pub type Date = i32;

/// A word of a column with few distinct ones, as a number. Equal words have equal numbers; their order has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub u32);

#[derive(Default)]
struct Words {
    numbers: HashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

/// All words that the process has seen. They are never released: TPC-H has a few hundred.
static WORDS: LazyLock<RwLock<Words>> = LazyLock::new(Default::default);

impl Word {
    pub fn of(text: &str) -> Self {
        if let Some(&number) = WORDS.read().expect("no thread panics here").numbers.get(text) {
            return Self(number);
        }
        let mut words = WORDS.write().expect("no thread panics here");
        if let Some(&number) = words.numbers.get(text) {
            return Self(number);
        }
        let number = u32::try_from(words.texts.len()).expect("fewer than 2^32 words");
        let kept: &'static str = Box::leak(text.into());
        words.texts.push(kept);
        words.numbers.insert(kept, number);
        Self(number)
    }

    pub fn text(self) -> &'static str {
        WORDS.read().expect("no thread panics here").texts[self.0 as usize]
    }
}

/// Makes a predicate of words from one of texts, which is evaluated once for each distinct word.
pub fn for_each_word(predicate: impl Fn(&str) -> bool + 'static) -> impl FnMut(Word) -> bool + 'static {
    let mut known: Vec<Option<bool>> = Vec::new();
    move |word| {
        let at = word.0 as usize;
        if at >= known.len() {
            known.resize(at + 1, None);
        }
        *known[at].get_or_insert_with(|| predicate(word.text()))
    }
}

/// A text: a slice of a buffer that the texts of a batch share. It is compared by its bytes.
#[derive(Clone, Default)]
pub struct Text {
    buffer: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl Text {
    /// Returns the texts of a buffer, which end at the given offsets.
    pub fn split(buffer: Arc<[u8]>, ends: impl Iterator<Item = u32>) -> impl Iterator<Item = Self> {
        let mut start = 0;
        ends.map(move |end| Self { buffer: Arc::clone(&buffer), start: std::mem::replace(&mut start, end), end })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).expect("Arrow's strings are UTF-8")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let end = u32::try_from(text.len()).expect("a text is shorter than 4 GB");
        Self { buffer: text.as_bytes().into(), start: 0, end }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(formatter)
    }
}
