//! Q3, shipping priority: the revenue of an order is a sum of differences, and the orders with the most revenue are found
//! by levels.

use std::cmp::Reverse;

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::flow::first;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Word};

const LIMIT: isize = 10;

pub fn q03(given: &Parameters) -> Result<Plan, String> {
    let (segment, date) = (given.word("segment")?, given.date("date")?);
    // About one order in a hundred has lines on both sides of the date and a customer of the segment.
    let expected = given.rows("orders") / 100;
    plan(move |tpch| {
        let customers = tpch
            .read::<(Key, Word)>("customer", &["c_custkey", "c_mktsegment"])
            .flat_map(move |(customer, of)| (of == segment).then_some(customer));
        let orders = tpch
            .read::<(Key, Key, Date, i32)>("orders", &["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"])
            .flat_map(move |(order, customer, ordered, priority)| {
                (ordered < date).then_some((customer, (order, ordered, priority)))
            })
            .join_core(customers.arrange_by_self(), |_, (order, ordered, priority), ()| {
                Some((*order, (*ordered, *priority)))
            });
        let revenues = tpch
            .read::<(Key, Date, Money, Money)>(
                "lineitem",
                &["l_orderkey", "l_shipdate", "l_extendedprice", "l_discount"],
            )
            .flat_map(move |(order, shipped, price, discount)| {
                (shipped > date).then(|| (order, price * (100 - discount)))
            })
            .join_core(orders.arrange_by_key(), |order, revenue, (ordered, priority)| {
                Some(((*order, *ordered, *priority), *revenue))
            })
            .explode(|(order, revenue)| Some((order, Sums([revenue, 1]))))
            .count_total()
            // The order of these columns is that of ORDER BY.
            .map(|((order, ordered, priority), Sums([revenue, _]))| (Reverse(revenue), ordered, order, priority));
        tpch.answer(first(revenues, LIMIT, expected, |row| row.2), |row, cells| {
            let (Reverse(revenue), ordered, order, priority) = *row;
            cells.key(order);
            cells.decimal(revenue, 4);
            cells.date(ordered);
            cells.integer(priority.into());
        });
    })
}
