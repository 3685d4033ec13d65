//! Q3, shipping priority: the revenue of each order of the segment; the first ten.

use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_shipdate", "l_extendedprice", "l_discount"];

const LIMIT: usize = 10;

pub fn q03(given: &Parameters) -> Result<Plan, String> {
    let (segment, date) = (given.word("segment")?, given.date("date")?);
    plan(move |tpch| {
        let customers = tpch
            .read::<Tup2<Key, Word>>("customer", &["c_custkey", "c_mktsegment"])
            .flat_map_index(move |&Tup2(customer, of)| (of == segment).then_some((customer, ())));
        let orders = tpch
            .read::<Tup4<Key, Key, Date, i32>>("orders", &["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"])
            .flat_map_index(move |&Tup4(order, customer, ordered, priority)| {
                (ordered < date).then_some((customer, Tup3(order, ordered, priority)))
            })
            .join_index(&customers, |_, &Tup3(order, ordered, priority), ()| Some((order, Tup2(ordered, priority))));
        let revenues = tpch
            .read::<Tup4<Key, Date, Money, Money>>("lineitem", LINE)
            .flat_map_index(move |&Tup4(order, shipped, price, discount)| {
                (shipped > date).then(|| (order, price * (100 - discount)))
            })
            .join_index(&orders, |&order, &revenue, &Tup2(ordered, priority)| {
                Some((Tup3(order, ordered, priority), revenue))
            });
        let first = sums(&revenues)
            // The order of these columns is that of ORDER BY, with the largest revenue first.
            .map_index(|(&Tup3(order, ordered, priority), revenue)| ((), Tup4(-revenue, ordered, order, priority)))
            .topk_asc(LIMIT);
        tpch.answer(&first, |(), &Tup4(revenue, ordered, order, priority), cells| {
            cells.key(order);
            cells.decimal(-revenue, 4);
            cells.date(ordered);
            cells.integer(priority.into());
        });
    })
}
