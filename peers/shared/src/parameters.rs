//! The parameters of a query as JSON, read as the types that queries compute with.

use serde_json::Value;

use crate::dates::parse_date;
use crate::protocol::Open;
use crate::types::{Date, Money, Word};

/// The parameters of a query, and the sizes of its relations.
pub struct Parameters<'a>(pub &'a Open);

impl Parameters<'_> {
    /// Returns a bound of the number of live rows of a relation.
    #[allow(dead_code, reason = "not every engine is told")]
    pub fn rows(&self, relation: &str) -> u64 {
        self.0.relations.get(relation).map_or(0, |relation| relation.rows)
    }

    pub fn date(&self, name: &str) -> Result<Date, String> {
        let text = self.text(name)?;
        parse_date(&text).ok_or_else(|| format!("parameter {name} is not a date: {text}"))
    }

    pub fn word(&self, name: &str) -> Result<Word, String> {
        self.text(name).map(|text| Word::of(&text))
    }

    /// Returns a text; a number is returned as it is written.
    pub fn text(&self, name: &str) -> Result<String, String> {
        plain(name, self.value(name)?)
    }

    pub fn words(&self, name: &str) -> Result<Vec<Word>, String> {
        Ok(self.texts(name)?.iter().map(|text| Word::of(text)).collect())
    }

    pub fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let list = self.value(name)?.as_array().ok_or_else(|| format!("parameter {name} is not a list"))?;
        list.iter().map(|value| plain(name, value)).collect()
    }

    pub fn integer(&self, name: &str) -> Result<i64, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("parameter {name} is not an integer: {text}"))
    }

    pub fn integers(&self, name: &str) -> Result<Vec<i32>, String> {
        let parse = |text: &String| text.parse().map_err(|_| format!("parameter {name} has no integer: {text}"));
        self.texts(name)?.iter().map(parse).collect()
    }

    /// Returns a decimal number as its digits without the point, and the number of digits behind it.
    pub fn decimal(&self, name: &str) -> Result<(i64, u32), String> {
        let text = self.text(name)?;
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{whole}{fraction}");
        let value = digits.parse().map_err(|_| format!("parameter {name} is not a decimal number: {text}"))?;
        Ok((value, fraction.len() as u32))
    }

    /// Returns a decimal number in hundredths.
    pub fn hundredths(&self, name: &str) -> Result<Money, String> {
        let (digits, scale) = self.decimal(name)?;
        let factor = 10_i64.pow(scale.abs_diff(2));
        match scale {
            0..=2 => digits.checked_mul(factor).ok_or_else(|| format!("parameter {name} is too large")),
            _ if digits % factor == 0 => Ok(digits / factor),
            _ => Err(format!("parameter {name} has more than two digits behind the point")),
        }
    }

    fn value(&self, name: &str) -> Result<&Value, String> {
        self.0.parameters.get(name).ok_or_else(|| format!("no parameter {name}"))
    }
}

fn plain(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("parameter {name} is neither a text nor a number: {value}")),
    }
}
