//! Q9, product type profit: the lines meet the offers for the parts, the suppliers and the orders.

use dbsp::utils::{Tup2, Tup3, Tup6};
use memchr::memmem::Finder;

use super::{Plan, plan};
use crate::dates::year;
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Text, Word};

type Line = Tup6<Key, Key, Key, Money, Money, Money>;

const LINE: &[&str] = &["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"];

pub fn q09(given: &Parameters) -> Result<Plan, String> {
    let color = Finder::new(&given.text("color")?).into_owned();
    plan(move |tpch| {
        let color = color.clone();
        let parts = tpch
            .read::<Tup2<Key, Text>>("part", &["p_partkey", "p_name"])
            .flat_map_index(move |Tup2(part, name)| color.find(name.bytes()).map(|_| (*part, ())));
        let nations = tpch
            .read::<Tup2<Key, Word>>("nation", &["n_nationkey", "n_name"])
            .map_index(|&Tup2(nation, name)| (nation, name));
        let suppliers = tpch
            .read::<Tup2<Key, Key>>("supplier", &["s_suppkey", "s_nationkey"])
            .map_index(|&Tup2(supplier, nation)| (nation, supplier))
            .join_index(&nations, |_, supplier, name| Some((*supplier, *name)));
        let offers = tpch
            .read::<Tup3<Key, Key, Money>>("partsupp", &["ps_partkey", "ps_suppkey", "ps_supplycost"])
            .map_index(|&Tup3(part, supplier, cost)| (part, Tup2(supplier, cost)))
            .join_index(&parts, |part, &Tup2(supplier, cost), ()| Some((supplier, Tup2(*part, cost))))
            .join_index(&suppliers, |supplier, &Tup2(part, cost), nation| {
                Some((Tup2(part, *supplier), Tup2(cost, *nation)))
            });
        let orders = tpch
            .read::<Tup2<Key, Date>>("orders", &["o_orderkey", "o_orderdate"])
            .map_index(|&Tup2(order, ordered)| (order, year(ordered)));
        let profits = tpch
            .read::<Line>("lineitem", LINE)
            .map_index(|&Tup6(order, part, supplier, quantity, price, discount)| {
                (Tup2(part, supplier), Tup3(order, quantity, price * (100 - discount)))
            })
            .join_index(&offers, |_, &Tup3(order, quantity, revenue), &Tup2(cost, nation)| {
                Some((order, Tup2(nation, revenue - cost * quantity)))
            })
            .join_index(&orders, |_, &Tup2(nation, profit), year| Some((Tup2(nation, *year), profit)));
        tpch.answer(&sums(&profits), |&Tup2(nation, year), profit, cells| {
            cells.word(nation);
            cells.integer(year.into());
            cells.decimal(*profit, 4);
        });
    })
}
