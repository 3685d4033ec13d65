//! Q15, top supplier: the largest revenue is found by levels, each of which takes the largest ones of a few suppliers.

use std::cmp::Reverse;

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::least;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Text};

const LINE: &[&str] = &["l_suppkey", "l_shipdate", "l_extendedprice", "l_discount"];

pub fn q15(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    let expected = given.rows("supplier");
    plan(move |tpch| {
        let revenues = tpch
            .read::<(Key, Date, Money, Money)>("lineitem", LINE)
            .explode(move |(supplier, shipped, price, discount)| {
                (start..end).contains(&shipped).then(|| (supplier, Sums([price * (100 - discount), 1])))
            })
            .count_total()
            .map(|(supplier, Sums([revenue, _]))| (Reverse(revenue), supplier));
        let suppliers = tpch
            .read::<(Key, Text, Text, Text)>("supplier", &["s_suppkey", "s_name", "s_address", "s_phone"])
            .map(|(supplier, name, address, phone)| (supplier, (name, address, phone)));
        let best = least(revenues, expected, |supplier| *supplier)
            .map(|(Reverse(revenue), supplier)| (supplier, revenue))
            .join_core(suppliers.arrange_by_key(), |supplier, revenue, texts| {
                Some((*supplier, texts.clone(), *revenue))
            });
        tpch.answer(best, |(supplier, (name, address, phone), revenue), cells| {
            cells.key(*supplier);
            [name, address, phone].into_iter().for_each(|text| cells.text(text));
            cells.decimal(*revenue, 4);
        });
    })
}
