//! Q5, local supplier volume: the lines meet the orders of the year, which have the nation of their customer, and then
//! the suppliers of the same nation.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Word};

pub fn q05(given: &Parameters) -> Result<Plan, String> {
    let (region, start) = (given.word("region")?, given.date("date")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let regions = tpch
            .read::<(Key, Word)>("region", &["r_regionkey", "r_name"])
            .flat_map(move |(region_key, name)| (name == region).then_some(region_key));
        let nations = tpch
            .read::<(Key, Key, Word)>("nation", &["n_nationkey", "n_regionkey", "n_name"])
            .map(|(nation, region, name)| (region, (nation, name)))
            .join_core(regions.arrange_by_self(), |_, (nation, name), ()| Some((*nation, *name)))
            .arrange_by_key();
        let suppliers = tpch
            .read::<(Key, Key)>("supplier", &["s_suppkey", "s_nationkey"])
            .map(|(supplier, nation)| (nation, supplier))
            .join_core(nations.clone(), |nation, supplier, name| Some(((*supplier, *nation), *name)));
        let customers = tpch
            .read::<(Key, Key)>("customer", &["c_custkey", "c_nationkey"])
            .map(|(customer, nation)| (nation, customer))
            .join_core(nations, |nation, customer, _| Some((*customer, *nation)));
        let orders = tpch
            .read::<(Key, Key, Date)>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map(move |(order, customer, ordered)| (start..end).contains(&ordered).then_some((customer, order)))
            .join_core(customers.arrange_by_key(), |_, order, nation| Some((*order, *nation)));
        let revenues = tpch
            .read::<(Key, Key, Money, Money)>(
                "lineitem",
                &["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"],
            )
            .map(|(order, supplier, price, discount)| (order, (supplier, price * (100 - discount))))
            .join_core(orders.arrange_by_key(), |_, (supplier, revenue), nation| Some(((*supplier, *nation), *revenue)))
            .join_core(suppliers.arrange_by_key(), |_, revenue, name| Some((*name, *revenue)))
            .explode(|(name, revenue)| Some((name, Sums([revenue, 1]))))
            .count_total();
        tpch.answer(revenues, |(name, Sums([revenue, _])), cells| {
            cells.word(*name);
            cells.decimal(*revenue, 4);
        });
    })
}
