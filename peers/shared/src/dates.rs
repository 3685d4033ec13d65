//! Dates as days since 1970-01-01, in the proleptic Gregorian calendar.

use crate::types::Date;

const DAYS_OF_400_YEARS: i32 = 146_097;
/// Days from 0000-03-01, where the years of the algorithm begin, to 1970-01-01.
const EPOCH: i32 = 719_468;

/// Returns the date of a year, a month from 1 and a day from 1.
pub const fn date(year: i32, month: i32, day: i32) -> Date {
    let year = if month > 2 { year } else { year - 1 };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH
}

/// Returns the year, the month and the day of a date.
pub const fn civil(date: Date) -> (i32, i32, i32) {
    let days = date + EPOCH;
    let era = days.div_euclid(DAYS_OF_400_YEARS);
    let day = days.rem_euclid(DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + (month <= 2) as i32, month, day)
}

pub const fn year(date: Date) -> i32 {
    civil(date).0
}

/// Adds months as SQL does: a day that the month lacks becomes its last.
pub fn months_later(start: Date, months: i32) -> Date {
    let (year, month, day) = civil(start);
    let month = 12 * year + month - 1 + months;
    let first = date(month.div_euclid(12), month.rem_euclid(12) + 1, 1);
    let next = date((month + 1).div_euclid(12), (month + 1).rem_euclid(12) + 1, 1);
    (first + day - 1).min(next - 1)
}

/// Reads `1994-01-01`.
pub fn parse_date(text: &str) -> Option<Date> {
    let parts: Vec<i32> = text.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let &[year, month, day] = parts.as_slice() else { return None };
    let parsed = date(year, month, day);
    (civil(parsed) == (year, month, day)).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_their_parts_agree() {
        assert_eq!(date(1970, 1, 1), 0);
        assert_eq!(date(1998, 12, 1), 10_561);
        for day in -1_000_000..1_000_000 {
            let (year, month, number) = civil(day);
            assert_eq!(date(year, month, number), day);
        }
    }

    #[test]
    fn months_end_at_their_last_day() {
        assert_eq!(months_later(date(1995, 11, 30), 3), date(1996, 2, 29));
        assert_eq!(months_later(date(1994, 12, 31), 12), date(1995, 12, 31));
    }

    #[test]
    fn only_dates_are_parsed() {
        assert_eq!(parse_date("1995-03-15"), Some(date(1995, 3, 15)));
        assert_eq!(parse_date("1995-02-29"), None);
        assert_eq!(parse_date("1995-02"), None);
    }
}
