//! Q10, returned items: the first twenty customers are found by their keys, and get their other columns at the end.

use std::cmp::Reverse;

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::first;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Text, Word};

type Customer = (Key, Key, Money, Text, Text, Text, Text);

const CUSTOMER: &[&str] = &["c_custkey", "c_nationkey", "c_acctbal", "c_name", "c_address", "c_phone", "c_comment"];
const LINE: &[&str] = &["l_orderkey", "l_returnflag", "l_extendedprice", "l_discount"];

const LIMIT: isize = 20;

pub fn q10(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 3);
    // About a quarter of the customers return lines of one quarter.
    let expected = given.rows("customer") / 4;
    plan(move |tpch| {
        let nations = tpch.read::<(Key, Word)>("nation", &["n_nationkey", "n_name"]);
        let customers = tpch
            .read::<Customer>("customer", CUSTOMER)
            .map(|(customer, nation, balance, name, address, phone, comment)| {
                (nation, (customer, (balance, name, address, phone, comment)))
            })
            .join_core(nations.arrange_by_key(), |_, (customer, columns), nation| {
                Some((*customer, (*nation, columns.clone())))
            })
            .arrange_by_key();
        let orders = tpch
            .read::<(Key, Key, Date)>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map(move |(order, customer, ordered)| (start..end).contains(&ordered).then_some((customer, order)))
            .join_core(customers.clone(), |customer, order, _| Some((*order, *customer)));
        let returned = Word::of("R");
        let revenues = tpch
            .read::<(Key, Word, Money, Money)>("lineitem", LINE)
            .flat_map(move |(order, flag, price, discount)| {
                (flag == returned).then(|| (order, price * (100 - discount)))
            })
            .join_core(orders.arrange_by_key(), |_, revenue, customer| Some((*customer, *revenue)))
            .explode(|(customer, revenue)| Some((customer, Sums([revenue, 1]))))
            .count_total()
            .map(|(customer, Sums([revenue, _]))| (Reverse(revenue), customer));
        let answer = first(revenues, LIMIT, expected, |row| row.1)
            .map(|(Reverse(revenue), customer)| (customer, revenue))
            .join_core(customers, |customer, revenue, (nation, columns)| {
                Some((*customer, *revenue, *nation, columns.clone()))
            });
        tpch.answer(answer, |(customer, revenue, nation, (balance, name, address, phone, comment)), cells| {
            cells.key(*customer);
            cells.text(name);
            cells.decimal(*revenue, 4);
            cells.decimal(*balance, 2);
            cells.word(*nation);
            [address, phone, comment].into_iter().for_each(|text| cells.text(text));
        });
    })
}
