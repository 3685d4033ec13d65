//! Q4, order priorities: the orders of the quarter meet the keys of orders with late lines.

use dbsp::utils::Tup3;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Word};

pub fn q04(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    plan(move |tpch| {
        let late = tpch
            .read::<Tup3<Key, Date, Date>>("lineitem", &["l_orderkey", "l_commitdate", "l_receiptdate"])
            .flat_map_index(|&Tup3(order, committed, received)| (committed < received).then_some((order, ())))
            .distinct();
        let counted = tpch
            .read::<Tup3<Key, Date, Word>>("orders", &["o_orderkey", "o_orderdate", "o_orderpriority"])
            .flat_map_index(move |&Tup3(order, ordered, priority)| {
                (start..end).contains(&ordered).then_some((order, priority))
            })
            .join_index(&late, |_, priority, ()| Some((*priority, ())))
            .weighted_count();
        tpch.answer(&counted, |priority, count, cells| {
            cells.word(*priority);
            cells.integer(*count);
        });
    })
}
