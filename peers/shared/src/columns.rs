//! Columns of Arrow become rows of the values that a query computes with.

use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::DataType;

use crate::types::{Date, Key, Text, Time, Word};

/// Reads the share of one of several workers of a file.
pub fn read_share(path: &str, worker: usize, workers: usize) -> Result<Vec<RecordBatch>, String> {
    let failed = |problem: &dyn std::fmt::Display| format!("cannot read {path}: {problem}");
    let file = File::open(path).map_err(|error| failed(&error))?;
    let reader = FileReader::try_new(file, None).map_err(|error| failed(&error))?;
    reader
        .map(|batch| {
            let batch = batch.map_err(|error| failed(&error))?;
            let (first, end) = (batch.num_rows() * worker / workers, batch.num_rows() * (worker + 1) / workers);
            Ok(batch.slice(first, end - first))
        })
        .collect()
}

/// Rows with times and weights.
pub type Changes<D> = Vec<(D, Time, i64)>;

/// Returns the changes of some columns of a relation by batch: the last time of each batch that has any, and these.
pub fn changes<D: Row>(
    records: &RecordBatch,
    relation: &str,
    columns: &[&str],
    ends: &[Time],
) -> Result<Vec<(Time, Changes<D>)>, String> {
    let named =
        |name: &str| records.column_by_name(name).map(AsRef::as_ref).ok_or_else(|| format!("{relation} has no {name}"));
    let columns = columns.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
    let rows = D::rows(&columns).map_err(|why| format!("{relation}: {why}"))?;
    let (times, diffs) = (i64::values(named("time")?)?, i64::values(named("diff")?)?);
    let (mut ends, mut batches) = (ends.iter().copied().peekable(), Vec::<(Time, Changes<D>)>::new());
    for ((row, time), diff) in rows.into_iter().zip(times).zip(diffs) {
        let time = Time::try_from(time).map_err(|_| format!("a time before 0: {time}"))?;
        while ends.next_if(|&end| end < time).is_some() {}
        let &end = ends.peek().ok_or_else(|| format!("a time after the last batch: {time}"))?;
        match batches.last_mut() {
            Some((last, changes)) if *last == end => changes.push((row, time, diff)),
            _ => batches.push((end, vec![(row, time, diff)])),
        }
    }
    Ok(batches)
}

/// A value of a column.
pub trait Value: Sized {
    /// Converts a column without NULL.
    fn values(column: &dyn Array) -> Result<Vec<Self>, String>;
}

/// A row of a relation.
pub trait Row: Sized {
    /// Converts columns, one for each value of the row.
    fn rows(columns: &[&dyn Array]) -> Result<Vec<Self>, String>;
}

/// Implements `Row` for a type, whose constructor takes a value of each column.
macro_rules! implement_row {
    ($row:ty, $make:expr, $($value:ident)+) => {
        #[allow(non_snake_case)]
        impl<$($value: $crate::columns::Value),+> $crate::columns::Row for $row {
            fn rows(columns: &[&dyn arrow_array::Array]) -> Result<Vec<Self>, String> {
                let rows = columns[0].len();
                let mut columns = columns.iter();
                $(
                    let column = columns.next().ok_or("too few columns")?;
                    if column.null_count() > 0 {
                        return Err("a column has NULL".into());
                    }
                    let mut $value = $value::values(*column)?.into_iter();
                )+
                let all_read = "all columns of a batch have the same length";
                Ok((0..rows).map(|_| $make($($value.next().expect(all_read)),+)).collect())
            }
        }
    };
}

/// Integers, and decimal numbers as their digits without the point.
impl Value for i64 {
    fn values(column: &dyn Array) -> Result<Vec<Self>, String> {
        match column.data_type() {
            DataType::Int64 => Ok(column.as_primitive::<Int64Type>().values().to_vec()),
            DataType::Decimal128(_, _) => {
                let numbers = column.as_primitive::<Decimal128Type>().values().iter();
                numbers.map(|&number| i64::try_from(number).map_err(|_| too_large(number))).collect()
            }
            other => Err(format!("not numbers: {other}")),
        }
    }
}

impl Value for Key {
    fn values(column: &dyn Array) -> Result<Vec<Self>, String> {
        let numbers = column.as_primitive_opt::<Int64Type>().ok_or_else(|| not("integers", column))?;
        numbers.values().iter().map(|&number| Key::try_from(number).map_err(|_| too_large(number))).collect()
    }
}

/// Dates and small integers.
impl Value for Date {
    fn values(column: &dyn Array) -> Result<Vec<Self>, String> {
        if let Some(days) = column.as_primitive_opt::<Date32Type>() {
            return Ok(days.values().to_vec());
        }
        let numbers = column.as_primitive_opt::<Int64Type>().ok_or_else(|| not("dates or integers", column))?;
        numbers.values().iter().map(|&number| i32::try_from(number).map_err(|_| too_large(number))).collect()
    }
}

impl Value for Word {
    fn values(column: &dyn Array) -> Result<Vec<Self>, String> {
        if let Some(words) = column.as_dictionary_opt::<Int32Type>() {
            let dictionary = Word::values(words.values().as_ref())?;
            return Ok(words.keys().values().iter().map(|&code| dictionary[code as usize]).collect());
        }
        let texts = column.as_string_opt::<i32>().ok_or_else(|| not("texts", column))?;
        Ok((0..texts.len()).map(|row| Word::of(texts.value(row))).collect())
    }
}

impl Value for Text {
    fn values(column: &dyn Array) -> Result<Vec<Self>, String> {
        if let Some(words) = column.as_dictionary_opt::<Int32Type>() {
            let dictionary = Text::values(words.values().as_ref())?;
            return Ok(words.keys().values().iter().map(|&code| dictionary[code as usize].clone()).collect());
        }
        let texts = column.as_string_opt::<i32>().ok_or_else(|| not("texts", column))?;
        let offsets = texts.value_offsets();
        let (first, last) = (offsets[0], offsets[texts.len()]);
        let buffer: Arc<[u8]> = texts.value_data()[first as usize..last as usize].into();
        Ok(Text::split(buffer, offsets[1..].iter().map(|&end| (end - first) as u32)).collect())
    }
}

fn too_large(number: impl std::fmt::Display) -> String {
    format!("a number that is too large, or an identifier below 0: {number}")
}

fn not(wanted: &str, column: &dyn Array) -> String {
    format!("not {wanted}: {}", column.data_type())
}
