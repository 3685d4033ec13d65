//! The changes of the answer as columns of Arrow.

use std::sync::Arc;

use arrow_array::builder::{Date32Builder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use crate::types::{Date, Key, Text, Time, Word};

/// Makes columns of changes, each of which has a row, a time and a weight. `write` writes the values of a row.
pub fn columns<D>(
    answer: &[(String, String)],
    changes: impl Iterator<Item = (D, Time, i64)>,
    write: impl Fn(&D, &mut Cells),
) -> Result<RecordBatch, String> {
    let (mut times, mut diffs, mut cells) = (Int64Builder::new(), Int64Builder::new(), Cells::new(answer)?);
    for (row, time, diff) in changes {
        times.append_value(time as i64);
        diffs.append_value(diff);
        cells.at = 0;
        write(&row, &mut cells);
        if cells.at != cells.columns.len() {
            let failure = format!("the answer has {} columns, not {}", cells.at, cells.columns.len());
            cells.failure.get_or_insert(failure);
        }
    }
    cells.finish(answer, Arc::new(times.finish()), Arc::new(diffs.finish()))
}

/// The columns of the answer, to which a query writes its rows value by value.
pub struct Cells {
    columns: Vec<Column>,
    at: usize,
    failure: Option<String>,
}

enum Column {
    Integer(Int64Builder),
    Decimal(Decimal128Builder, u32),
    Date(Date32Builder),
    Double(Float64Builder),
    Text(StringBuilder),
}

/// The largest number of digits of a decimal.
const DIGITS: u8 = 38;

impl Cells {
    fn new(answer: &[(String, String)]) -> Result<Self, String> {
        let columns = answer.iter().map(|(_, type_)| Column::of(type_)).collect::<Result<_, _>>()?;
        Ok(Self { columns, at: 0, failure: None })
    }

    pub fn key(&mut self, key: Key) {
        self.integer(i64::from(key));
    }

    pub fn integer(&mut self, number: i64) {
        self.decimal(i128::from(number), 0);
    }

    /// Writes a number that is given as its digits without the point, and the number of digits behind it.
    pub fn decimal(&mut self, digits: impl Into<i128>, scale: u32) {
        let digits = digits.into();
        self.write(|column| {
            match column {
                Column::Integer(numbers) => numbers.append_value(rescaled(digits, scale, 0)?.try_into().ok()?),
                Column::Decimal(numbers, wanted) => numbers.append_value(rescaled(digits, scale, *wanted)?),
                _ => return None,
            }
            Some(())
        });
    }

    #[allow(dead_code, reason = "an engine with a stream writes the parts of a quotient")]
    pub fn double(&mut self, number: f64) {
        self.write(|column| match column {
            Column::Double(numbers) => Some(numbers.append_value(number)),
            _ => None,
        });
    }

    pub fn date(&mut self, date: Date) {
        self.write(|column| match column {
            Column::Date(dates) => Some(dates.append_value(date)),
            _ => None,
        });
    }

    pub fn word(&mut self, word: Word) {
        self.string(word.text());
    }

    pub fn text(&mut self, text: &Text) {
        self.string(text.text());
    }

    pub fn string(&mut self, string: &str) {
        self.write(|column| match column {
            Column::Text(texts) => Some(texts.append_value(string)),
            _ => None,
        });
    }

    pub fn null(&mut self) {
        self.write(|column| {
            match column {
                Column::Integer(numbers) => numbers.append_null(),
                Column::Decimal(numbers, _) => numbers.append_null(),
                Column::Date(dates) => dates.append_null(),
                Column::Double(numbers) => numbers.append_null(),
                Column::Text(texts) => texts.append_null(),
            }
            Some(())
        });
    }

    fn write(&mut self, append: impl FnOnce(&mut Column) -> Option<()>) {
        if self.columns.get_mut(self.at).and_then(append).is_none() {
            let at = self.at + 1;
            self.failure
                .get_or_insert(format!("column {at} of the answer has another type, or a value does not fit it"));
        }
        self.at += 1;
    }

    fn finish(self, answer: &[(String, String)], times: ArrayRef, diffs: ArrayRef) -> Result<RecordBatch, String> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let names = ["time", "diff"].into_iter().chain(answer.iter().map(|(name, _)| name.as_str()));
        let columns: Vec<ArrayRef> =
            [times, diffs].into_iter().chain(self.columns.into_iter().map(Column::finish)).collect();
        let field = |(name, column): (&str, &ArrayRef)| Field::new(name, column.data_type().clone(), true);
        let schema = Schema::new(names.zip(&columns).map(field).collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| error.to_string())
    }
}

impl Column {
    fn of(type_: &str) -> Result<Self, String> {
        if let Some(scale) = type_.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) {
            let scale: i8 = scale.parse().map_err(|_| format!("not a type: {type_}"))?;
            let decimal = DataType::Decimal128(DIGITS, scale);
            return Ok(Self::Decimal(Decimal128Builder::new().with_data_type(decimal), scale.unsigned_abs().into()));
        }
        match type_ {
            "int64" => Ok(Self::Integer(Int64Builder::new())),
            "date32" => Ok(Self::Date(Date32Builder::new())),
            "double" => Ok(Self::Double(Float64Builder::new())),
            "string" => Ok(Self::Text(StringBuilder::new())),
            _ => Err(format!("not a type: {type_}")),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Integer(mut numbers) => Arc::new(numbers.finish()),
            Self::Decimal(mut numbers, _) => Arc::new(numbers.finish()),
            Self::Date(mut dates) => Arc::new(dates.finish()),
            Self::Double(mut numbers) => Arc::new(numbers.finish()),
            Self::Text(mut texts) => Arc::new(texts.finish()),
        }
    }
}

/// Converts the digits of a decimal to another scale; `None` if that is not exact.
fn rescaled(digits: i128, scale: u32, wanted: u32) -> Option<i128> {
    let factor = 10_i128.checked_pow(scale.abs_diff(wanted))?;
    if wanted >= scale { digits.checked_mul(factor) } else { (digits % factor == 0).then_some(digits / factor) }
}
