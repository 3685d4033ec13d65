//! Q18, large volume customers: the quantity of an order is a difference that is 0 up to the limit, so only large orders
//! leave the threshold.

use std::cmp::Reverse;

use differential_dataflow::operators::{CountTotal, ThresholdTotal};

use super::{Plan, plan};
use crate::flow::first;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Text};

const LIMIT: isize = 100;

pub fn q18(given: &Parameters) -> Result<Plan, String> {
    let limit = given.hundredths("quantity")?;
    // About one order in 25,000 is large.
    let expected = given.rows("orders") / 25_000;
    plan(move |tpch| {
        let customers = tpch.read::<(Key, Text)>("customer", &["c_custkey", "c_name"]);
        let orders = tpch
            .read::<(Key, Key, Date, Money)>("orders", &["o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"])
            .map(|(order, customer, ordered, price)| (order, (customer, ordered, price)));
        let large = tpch
            .read::<(Key, Money)>("lineitem", &["l_orderkey", "l_quantity"])
            .explode(|(order, quantity)| Some((order, Sums([quantity, 1]))))
            .threshold_total(move |_, Sums([quantity, lines])| {
                if *quantity > limit { Sums([*quantity, *lines]) } else { Sums([0, 0]) }
            })
            .arrange_by_self()
            .join_core(orders.arrange_by_key(), |order, (), (customer, ordered, price)| {
                Some((*customer, (*order, *ordered, *price)))
            })
            .join_core(customers.arrange_by_key(), |customer, (order, ordered, price), name| {
                Some((Reverse(*price), *ordered, name.clone(), *customer, *order))
            })
            .count_total()
            // The order of these columns is that of ORDER BY.
            .map(|((price, ordered, name, customer, order), Sums([quantity, _]))| {
                (price, ordered, name, customer, order, quantity)
            });
        tpch.answer(first(large, LIMIT, expected, |row| row.4), |row, cells| {
            let (Reverse(price), ordered, name, customer, order, quantity) = row;
            cells.text(name);
            cells.key(*customer);
            cells.key(*order);
            cells.date(*ordered);
            cells.decimal(*price, 2);
            cells.decimal(*quantity, 2);
        });
    })
}
