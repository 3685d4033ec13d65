//! Q22, global sales opportunity: the balances of customers without orders are compared with the average by their
//! digits, so that no time rescans all customers.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::flow::{above, distinct};
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Key, Money, Text};

type Code = [u8; 2];

/// Balances have 20 bits and a sign.
const PLACES: &[u32] = &[0, 4, 8, 12, 16];

pub fn q22(given: &Parameters) -> Result<Plan, String> {
    // A country code of another length than two equals no prefix of two bytes.
    let codes: Vec<Code> = given.texts("codes")?.iter().filter_map(|code| code.as_bytes().try_into().ok()).collect();
    plan(move |tpch| {
        let codes = codes.clone();
        let customers = tpch
            .read::<(Key, Text, Money)>("customer", &["c_custkey", "c_phone", "c_acctbal"])
            .flat_map(move |(customer, phone, balance)| {
                let code: Code = phone.bytes().get(..2)?.try_into().ok()?;
                codes.contains(&code).then_some((customer, (code, balance)))
            });
        // balance > sum / count, in whole numbers
        let average = customers
            .clone()
            .explode(|(_, (_, balance))| (balance > 0).then_some(((), Sums([balance, 1]))))
            .count_total()
            .map(|((), Sums([sum, count]))| sum.div_euclid(count));
        let ordering = distinct(tpch.read::<(Key,)>("orders", &["o_custkey"]).map(|(customer,)| customer));
        let others = customers
            .clone()
            .join_core(ordering.arrange_by_self(), |customer, columns, ()| Some((*customer, *columns)))
            .negate()
            .concat(customers)
            .map(|(_, (code, balance))| (balance, code));
        let counted = above(others, average, PLACES)
            .explode(|(balance, code)| Some((code, Sums([1, balance]))))
            .count_total();
        tpch.answer(counted, |(code, Sums([customers, balance])), cells| {
            cells.string(std::str::from_utf8(code).expect("a code is a parameter, which is UTF-8"));
            cells.integer(*customers);
            cells.decimal(*balance, 2);
        });
    })
}
