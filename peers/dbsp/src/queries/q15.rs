//! Q15, top supplier: the suppliers whose revenue is the largest one.

use dbsp::operator::Max;
use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Text};

const LINE: &[&str] = &["l_suppkey", "l_shipdate", "l_extendedprice", "l_discount"];

pub fn q15(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    plan(move |tpch| {
        let suppliers = tpch
            .read::<Tup4<Key, Text, Text, Text>>("supplier", &["s_suppkey", "s_name", "s_address", "s_phone"])
            .map_index(|Tup4(supplier, name, address, phone)| {
                (*supplier, Tup3(name.clone(), address.clone(), phone.clone()))
            });
        let lines = tpch.read::<Tup4<Key, Date, Money, Money>>("lineitem", LINE).flat_map_index(
            move |&Tup4(supplier, shipped, price, discount)| {
                (start..end).contains(&shipped).then(|| (supplier, price * (100 - discount)))
            },
        );
        let revenues = sums(&lines);
        let most = revenues
            .map_index(|(_, revenue)| ((), *revenue))
            .aggregate(Max)
            .map_index(|((), revenue)| (*revenue, ()));
        let best = revenues
            .map_index(|(supplier, revenue)| (*revenue, *supplier))
            .join_index(&most, |revenue, supplier, ()| Some((*supplier, *revenue)))
            .join_index(&suppliers, |supplier, revenue, texts| Some((Tup2(*supplier, texts.clone()), *revenue)));
        tpch.answer(&best, |Tup2(supplier, Tup3(name, address, phone)), revenue, cells| {
            cells.key(*supplier);
            [name, address, phone].into_iter().for_each(|text| cells.text(text));
            cells.decimal(*revenue, 4);
        });
    })
}
