//! Q1, pricing summary: the lines shipped by a date are summed up as differences of their flag and status.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::date;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Money, Word};

type Line = (Date, Word, Word, Money, Money, Money, Money);

const LINE: &[&str] =
    &["l_shipdate", "l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax"];

pub fn q01(given: &Parameters) -> Result<Plan, String> {
    let last = date(1998, 12, 1) - Date::try_from(given.integer("days")?).map_err(|error| error.to_string())?;
    plan(move |tpch| {
        let lines = tpch.read::<Line>("lineitem", LINE);
        let summed = lines
            .explode(move |(shipped, flag, status, quantity, price, discount, tax)| {
                (shipped <= last).then(|| {
                    let discounted = price * (100 - discount);
                    ((flag, status), Sums([quantity, price, discounted, discounted * (100 + tax), discount, 1]))
                })
            })
            .count_total();
        tpch.answer(summed, |((flag, status), sums), cells| {
            let Sums([quantity, price, discounted, charge, discount, count]) = *sums;
            cells.word(*flag);
            cells.word(*status);
            cells.decimal(quantity, 2);
            cells.decimal(price, 2);
            cells.decimal(discounted, 4);
            cells.decimal(charge, 6);
            for sum in [quantity, price, discount] {
                cells.decimal(sum, 2);
                cells.integer(count);
            }
            cells.integer(count);
        });
    })
}
