//! Q5, local supplier volume: the lines meet the orders of the year, which have the nation of their customer, and then
//! the suppliers of the same nation.

use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"];

pub fn q05(given: &Parameters) -> Result<Plan, String> {
    let (region, start) = (given.word("region")?, given.date("date")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let regions = tpch
            .read::<Tup2<Key, Word>>("region", &["r_regionkey", "r_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == region).then_some((key, ())));
        let nations = tpch
            .read::<Tup3<Key, Key, Word>>("nation", &["n_nationkey", "n_regionkey", "n_name"])
            .map_index(|&Tup3(nation, region, name)| (region, Tup2(nation, name)))
            .join_index(&regions, |_, &Tup2(nation, name), ()| Some((nation, name)));
        let suppliers = tpch
            .read::<Tup2<Key, Key>>("supplier", &["s_suppkey", "s_nationkey"])
            .map_index(|&Tup2(supplier, nation)| (nation, supplier))
            .join_index(&nations, |nation, supplier, name| Some((Tup2(*supplier, *nation), *name)));
        let customers = tpch
            .read::<Tup2<Key, Key>>("customer", &["c_custkey", "c_nationkey"])
            .map_index(|&Tup2(customer, nation)| (customer, nation));
        let orders = tpch
            .read::<Tup3<Key, Key, Date>>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map_index(move |&Tup3(order, customer, ordered)| {
                (start..end).contains(&ordered).then_some((customer, order))
            })
            .join_index(&customers, |_, order, nation| Some((*order, *nation)));
        let revenues = tpch
            .read::<Tup4<Key, Key, Money, Money>>("lineitem", LINE)
            .map_index(|&Tup4(order, supplier, price, discount)| (order, Tup2(supplier, price * (100 - discount))))
            .join_index(&orders, |_, &Tup2(supplier, revenue), nation| Some((Tup2(supplier, *nation), revenue)))
            .join_index(&suppliers, |_, revenue, name| Some((*name, *revenue)));
        tpch.answer(&sums(&revenues), |name, revenue, cells| {
            cells.word(*name);
            cells.decimal(*revenue, 4);
        });
    })
}
