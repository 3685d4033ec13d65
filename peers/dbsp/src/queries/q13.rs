//! Q13, customer distribution: a left join of the customers with their orders, counted by customer and then by count.

use dbsp::utils::{Tup1, Tup2};
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
            .read::<Tup2<Key, Text>>("orders", &["o_custkey", "o_comment"])
            .flat_map_index(move |Tup2(customer, comment)| (!like(comment.bytes())).then_some((*customer, Some(()))));
        let distribution = tpch
            .read::<Tup1<Key>>("customer", &["c_custkey"])
            .map_index(|&Tup1(customer)| (customer, ()))
            .left_join_index(&orders, |customer, (), order| Some((*customer, i64::from(order.is_some()))))
            // A customer without orders counts as well, so the number of rows is kept with a count of 0.
            .aggregate_linear_postprocess(|order| Tup2(*order, 1_i64), |Tup2(orders, _)| orders)
            .map_index(|(_, orders)| (*orders, ()))
            .weighted_count();
        tpch.answer(&distribution, |orders, customers, cells| {
            cells.integer(*orders);
            cells.integer(*customers);
        });
    })
}
