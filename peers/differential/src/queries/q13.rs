//! Q13, customer distribution: customers and orders are counted by customer in one collection, which needs no outer
//! join.

use differential_dataflow::operators::CountTotal;
use memchr::memmem::Finder;

use super::{Plan, plan};
use crate::parameters::Parameters;
use crate::types::{Key, Text};

pub fn q13(given: &Parameters) -> Result<Plan, String> {
    let word = |name: &str| given.text(name).map(|word| Finder::new(&word).into_owned());
    let (word1, word2) = (word("word1")?, word("word2")?);
    plan(move |tpch| {
        let (word1, word2) = (word1.clone(), word2.clone());
        let like = move |comment: &[u8]| {
            let after = word1.find(comment).map(|start| &comment[start + word1.needle().len()..]);
            after.is_some_and(|rest| word2.find(rest).is_some())
        };
        let orders = tpch
            .read::<(Key, Text)>("orders", &["o_custkey", "o_comment"])
            .explode(move |(customer, comment)| (!like(comment.bytes())).then_some((customer, (0, 1))));
        let distribution = tpch
            .read::<(Key,)>("customer", &["c_custkey"])
            .explode(|(customer,)| Some((customer, (1, 0))))
            .concat(orders)
            .count_total()
            .flat_map(|(_, (customers, orders)): (Key, (isize, isize))| (customers > 0).then_some(orders))
            .count_total();
        tpch.answer(distribution, |(orders, customers), cells| {
            cells.integer(*orders as i64);
            cells.integer(*customers as i64);
        });
    })
}
