//! Q7, volume shipping: the lines of two years meet the suppliers of both nations, and then the orders of their
//! customers.

use dbsp::utils::{Tup2, Tup3, Tup5};

use super::{Plan, plan};
use crate::dates::{date, year};
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_suppkey", "l_shipdate", "l_extendedprice", "l_discount"];
const FIRST: Date = date(1995, 1, 1);
const LAST: Date = date(1996, 12, 31);

pub fn q07(given: &Parameters) -> Result<Plan, String> {
    let (nation1, nation2) = (given.word("nation1")?, given.word("nation2")?);
    plan(move |tpch| {
        let nations = tpch
            .read::<Tup2<Key, Word>>("nation", &["n_nationkey", "n_name"])
            .flat_map_index(move |&Tup2(nation, name)| (name == nation1 || name == nation2).then_some((nation, name)));
        let suppliers = tpch
            .read::<Tup2<Key, Key>>("supplier", &["s_suppkey", "s_nationkey"])
            .map_index(|&Tup2(supplier, nation)| (nation, supplier))
            .join_index(&nations, |_, supplier, name| Some((*supplier, *name)));
        let customers = tpch
            .read::<Tup2<Key, Key>>("customer", &["c_custkey", "c_nationkey"])
            .map_index(|&Tup2(customer, nation)| (nation, customer))
            .join_index(&nations, |_, customer, name| Some((*customer, *name)));
        let orders = tpch
            .read::<Tup2<Key, Key>>("orders", &["o_orderkey", "o_custkey"])
            .map_index(|&Tup2(order, customer)| (customer, order))
            .join_index(&customers, |_, order, name| Some((*order, *name)));
        let volumes = tpch
            .read::<Tup5<Key, Key, Date, Money, Money>>("lineitem", LINE)
            .flat_map_index(|&Tup5(order, supplier, shipped, price, discount)| {
                let in_time = (FIRST..=LAST).contains(&shipped);
                in_time.then(|| (supplier, Tup3(order, year(shipped), price * (100 - discount))))
            })
            .join_index(&suppliers, |_, &Tup3(order, year, revenue), name| Some((order, Tup3(*name, year, revenue))))
            .join_index(&orders, |_, &Tup3(supplier, year, revenue), customer| {
                (supplier != *customer).then_some((Tup3(supplier, *customer, year), revenue))
            });
        tpch.answer(&sums(&volumes), |&Tup3(supplier, customer, year), revenue, cells| {
            cells.word(supplier);
            cells.word(customer);
            cells.integer(year.into());
            cells.decimal(*revenue, 4);
        });
    })
}
