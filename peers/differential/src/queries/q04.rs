//! Q4, order priorities: the orders of the quarter are joined with all their late lines, and made distinct afterwards,
//! when they are few.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::distinct;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Word};

pub fn q04(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    plan(move |tpch| {
        let orders = tpch
            .read::<(Key, Date, Word)>("orders", &["o_orderkey", "o_orderdate", "o_orderpriority"])
            .flat_map(move |(order, ordered, priority)| (start..end).contains(&ordered).then_some((order, priority)));
        let late = tpch
            .read::<(Key, Date, Date)>("lineitem", &["l_orderkey", "l_commitdate", "l_receiptdate"])
            .flat_map(|(order, committed, received)| (committed < received).then_some(order));
        let on_orders = orders.join_core(late.arrange_by_self(), |order, priority, ()| Some((*order, *priority)));
        let counted = distinct(on_orders).map(|(_, priority)| priority).count_total();
        tpch.answer(counted, |(priority, count), cells| {
            cells.word(*priority);
            cells.integer(*count as i64);
        });
    })
}
