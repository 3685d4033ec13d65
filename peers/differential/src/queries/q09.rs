//! Q9, product type profit: the offers for the parts get the nation of their supplier, so the lines meet one relation
//! with the part, the cost and the nation, and then their orders.

use differential_dataflow::operators::CountTotal;
use memchr::memmem::Finder;

use super::{Plan, plan};
use crate::dates::year;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Text, Word};

type Line = (Key, Key, Key, Money, Money, Money);

const LINE: &[&str] = &["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"];

pub fn q09(given: &Parameters) -> Result<Plan, String> {
    let color = Finder::new(&given.text("color")?).into_owned();
    plan(move |tpch| {
        let color = color.clone();
        let parts = tpch
            .read::<(Key, Text)>("part", &["p_partkey", "p_name"])
            .flat_map(move |(part, name)| color.find(name.bytes()).map(|_| part));
        let nations = tpch.read::<(Key, Word)>("nation", &["n_nationkey", "n_name"]);
        let suppliers = tpch
            .read::<(Key, Key)>("supplier", &["s_suppkey", "s_nationkey"])
            .map(|(supplier, nation)| (nation, supplier))
            .join_core(nations.arrange_by_key(), |_, supplier, name| Some((*supplier, *name)));
        let offers = tpch
            .read::<(Key, Key, Money)>("partsupp", &["ps_partkey", "ps_suppkey", "ps_supplycost"])
            .map(|(part, supplier, cost)| (part, (supplier, cost)))
            .join_core(parts.arrange_by_self(), |part, (supplier, cost), ()| Some((*supplier, (*part, *cost))))
            .join_core(suppliers.arrange_by_key(), |supplier, (part, cost), nation| {
                Some(((*part, *supplier), (*cost, *nation)))
            });
        let orders = tpch
            .read::<(Key, Date)>("orders", &["o_orderkey", "o_orderdate"])
            .map(|(order, ordered)| (order, year(ordered)));
        let profits = tpch
            .read::<Line>("lineitem", LINE)
            .map(|(order, part, supplier, quantity, price, discount)| {
                ((part, supplier), (order, quantity, price * (100 - discount)))
            })
            .join_core(offers.arrange_by_key(), |_, (order, quantity, revenue), (cost, nation)| {
                Some((*order, (*nation, revenue - cost * quantity)))
            })
            .join_core(orders.arrange_by_key(), |_, (nation, profit), year| Some((*nation, *year, *profit)))
            .explode(|(nation, year, profit)| Some(((nation, year), Sums([profit, 1]))))
            .count_total();
        tpch.answer(profits, |((nation, year), Sums([profit, _])), cells| {
            cells.word(*nation);
            cells.integer((*year).into());
            cells.decimal(*profit, 4);
        });
    })
}
