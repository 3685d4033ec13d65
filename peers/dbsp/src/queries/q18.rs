//! Q18, large volume customers: the sums by order above the limit meet the orders and the customers; the first hundred.

use dbsp::utils::{Tup2, Tup3, Tup4, Tup5, Tup6};

use super::{Plan, plan};
use crate::flow::{Sum, sums};
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Text};

const LIMIT: usize = 100;

pub fn q18(given: &Parameters) -> Result<Plan, String> {
    let limit = Sum::from(given.hundredths("quantity")?);
    plan(move |tpch| {
        let customers = tpch
            .read::<Tup2<Key, Text>>("customer", &["c_custkey", "c_name"])
            .map_index(|Tup2(customer, name)| (*customer, name.clone()));
        let orders = tpch
            .read::<Tup4<Key, Key, Date, Money>>("orders", &["o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"])
            .map_index(|&Tup4(order, customer, ordered, price)| (order, Tup3(customer, ordered, price)));
        let lines = tpch
            .read::<Tup2<Key, Money>>("lineitem", &["l_orderkey", "l_quantity"])
            .map_index(|&Tup2(order, quantity)| (order, quantity));
        let large = sums(&lines)
            .filter(move |(_, quantity)| *quantity > limit)
            .join_index(&orders, |order, quantity, &Tup3(customer, ordered, price)| {
                Some((customer, Tup4(*order, ordered, price, *quantity)))
            })
            .join_index(&customers, |customer, &Tup4(order, ordered, price, quantity), name| {
                Some((Tup5(-price, ordered, name.clone(), *customer, order), quantity))
            })
            // Equal orders are one row, whose sum has the lines of each.
            .aggregate_linear(|quantity| *quantity);
        let first = large
            // The order of these columns is that of ORDER BY, with the largest price first.
            .map_index(|(Tup5(price, ordered, name, customer, order), quantity)| {
                ((), Tup6(*price, *ordered, name.clone(), *customer, *order, *quantity))
            })
            .topk_asc(LIMIT);
        tpch.answer(&first, |(), Tup6(price, ordered, name, customer, order, quantity), cells| {
            cells.text(name);
            cells.key(*customer);
            cells.key(*order);
            cells.date(*ordered);
            cells.decimal(-price, 2);
            cells.decimal(*quantity, 2);
        });
    })
}
