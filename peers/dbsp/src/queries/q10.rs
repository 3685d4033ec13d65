//! Q10, returned items: the returned lines meet the orders of the quarter, which have the columns of their customer; the
//! first twenty sums by customer.

use dbsp::utils::{Tup2, Tup3, Tup4, Tup6, Tup7};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Text, Word};

type Customer = Tup7<Key, Key, Money, Text, Text, Text, Text>;

const CUSTOMER: &[&str] = &["c_custkey", "c_nationkey", "c_acctbal", "c_name", "c_address", "c_phone", "c_comment"];
const LINE: &[&str] = &["l_orderkey", "l_returnflag", "l_extendedprice", "l_discount"];

const LIMIT: usize = 20;

pub fn q10(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    plan(move |tpch| {
        let nations = tpch
            .read::<Tup2<Key, Text>>("nation", &["n_nationkey", "n_name"])
            .map_index(|Tup2(nation, name)| (*nation, name.clone()));
        // The order of a customer's columns is that of ORDER BY.
        let customers = tpch
            .read::<Customer>("customer", CUSTOMER)
            .map_index(|Tup7(customer, nation, balance, name, address, phone, comment)| {
                let columns = Tup6(*customer, name.clone(), *balance, address.clone(), phone.clone(), comment.clone());
                (*nation, columns)
            })
            .join_index(&nations, |_, columns, nation| {
                let Tup6(customer, name, balance, address, phone, comment) = columns.clone();
                Some((customer, Tup7(customer, name, balance, nation.clone(), address, phone, comment)))
            });
        let orders = tpch
            .read::<Tup3<Key, Key, Date>>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map_index(move |&Tup3(order, customer, ordered)| {
                (start..end).contains(&ordered).then_some((customer, order))
            })
            .join_index(&customers, |_, order, customer| Some((*order, customer.clone())));
        let returned = Word::of("R");
        let revenues = tpch
            .read::<Tup4<Key, Word, Money, Money>>("lineitem", LINE)
            .flat_map_index(move |&Tup4(order, flag, price, discount)| {
                (flag == returned).then(|| (order, price * (100 - discount)))
            })
            .join_index(&orders, |_, revenue, customer| Some((customer.clone(), *revenue)));
        let first = sums(&revenues)
            .map_index(|(customer, revenue)| ((), Tup2(-revenue, customer.clone())))
            .topk_asc(LIMIT);
        tpch.answer(&first, |(), Tup2(revenue, customer), cells| {
            let Tup7(key, name, balance, nation, address, phone, comment) = customer;
            cells.key(*key);
            cells.text(name);
            cells.decimal(-revenue, 4);
            cells.decimal(*balance, 2);
            [nation, address, phone, comment].into_iter().for_each(|text| cells.text(text));
        });
    })
}
