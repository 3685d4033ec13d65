//! Q7, volume shipping: the lines of two years meet the suppliers of both nations first, which leaves one in twelve.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::{date, year};
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_suppkey", "l_shipdate", "l_extendedprice", "l_discount"];
const FIRST: Date = date(1995, 1, 1);
const LAST: Date = date(1996, 12, 31);

pub fn q07(given: &Parameters) -> Result<Plan, String> {
    let (nation1, nation2) = (given.word("nation1")?, given.word("nation2")?);
    plan(move |tpch| {
        let nations = tpch
            .read::<(Key, Word)>("nation", &["n_nationkey", "n_name"])
            .flat_map(move |(nation, name)| (name == nation1 || name == nation2).then_some((nation, name)))
            .arrange_by_key();
        let suppliers = tpch
            .read::<(Key, Key)>("supplier", &["s_suppkey", "s_nationkey"])
            .map(|(supplier, nation)| (nation, supplier))
            .join_core(nations.clone(), |_, supplier, name| Some((*supplier, *name)));
        let customers = tpch
            .read::<(Key, Key)>("customer", &["c_custkey", "c_nationkey"])
            .map(|(customer, nation)| (nation, customer))
            .join_core(nations, |_, customer, name| Some((*customer, *name)));
        let orders = tpch
            .read::<(Key, Key)>("orders", &["o_orderkey", "o_custkey"])
            .map(|(order, customer)| (customer, order))
            .join_core(customers.arrange_by_key(), |_, order, name| Some((*order, *name)));
        let volumes = tpch
            .read::<(Key, Key, Date, Money, Money)>("lineitem", LINE)
            .flat_map(|(order, supplier, shipped, price, discount)| {
                let in_time = (FIRST..=LAST).contains(&shipped);
                in_time.then(|| (supplier, (order, year(shipped), price * (100 - discount))))
            })
            .join_core(suppliers.arrange_by_key(), |_, (order, year, revenue), name| {
                Some((*order, (*name, *year, *revenue)))
            })
            .join_core(orders.arrange_by_key(), |_, (supplier, year, revenue), customer| {
                (supplier != customer).then_some(((*supplier, *customer, *year), *revenue))
            })
            .explode(|(key, revenue)| Some((key, Sums([revenue, 1]))))
            .count_total();
        tpch.answer(volumes, |((supplier, customer, year), Sums([revenue, _])), cells| {
            cells.word(*supplier);
            cells.word(*customer);
            cells.integer((*year).into());
            cells.decimal(*revenue, 4);
        });
    })
}
