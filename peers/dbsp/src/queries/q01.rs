//! Q1, pricing summary: six sums of the lines shipped by a date, by flag and status.

use dbsp::utils::{Tup2, Tup4, Tup6, Tup7};

use super::{Plan, plan};
use crate::dates::date;
use crate::flow::Sum;
use crate::parameters::Parameters;
use crate::types::{Date, Money, Word};

type Line = Tup7<Date, Word, Word, Money, Money, Money, Money>;

const LINE: &[&str] =
    &["l_shipdate", "l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax"];

pub fn q01(given: &Parameters) -> Result<Plan, String> {
    let last = date(1998, 12, 1) - Date::try_from(given.integer("days")?).map_err(|error| error.to_string())?;
    plan(move |tpch| {
        let summed = tpch
            .read::<Line>("lineitem", LINE)
            .flat_map_index(move |&Tup7(shipped, flag, status, quantity, price, discount, tax)| {
                (shipped <= last).then_some((Tup2(flag, status), Tup4(quantity, price, discount, tax)))
            })
            .aggregate_linear(|&Tup4(quantity, price, discount, tax)| {
                let discounted = Sum::from(price * (100 - discount));
                let charge = discounted * Sum::from(100 + tax);
                Tup6(Sum::from(quantity), Sum::from(price), discounted, charge, Sum::from(discount), 1_i64)
            });
        tpch.answer(&summed, |Tup2(flag, status), sums, cells| {
            let Tup6(quantity, price, discounted, charge, discount, count) = *sums;
            cells.word(*flag);
            cells.word(*status);
            cells.decimal(quantity, 2);
            cells.decimal(price, 2);
            cells.decimal(discounted, 4);
            cells.decimal(charge, 6);
            for sum in [quantity, price, discount] {
                cells.double(sum as f64 / (100 * count) as f64);
            }
            cells.integer(count);
        });
    })
}
