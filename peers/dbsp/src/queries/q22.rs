//! Q22, global sales opportunity: the customers without orders are joined with the average balance, which has no key.

use dbsp::utils::{Tup1, Tup2, Tup3};

use super::{Plan, plan};
use crate::flow::Sum;
use crate::parameters::Parameters;
use crate::types::{Key, Money, Text};

pub fn q22(given: &Parameters) -> Result<Plan, String> {
    // A country code of another length than two equals no prefix of two bytes.
    let codes: Vec<[u8; 2]> = given.texts("codes")?.iter().filter_map(|code| code.as_bytes().try_into().ok()).collect();
    plan(move |tpch| {
        let codes = codes.clone();
        let customers = tpch
            .read::<Tup3<Key, Text, Money>>("customer", &["c_custkey", "c_phone", "c_acctbal"])
            .flat_map_index(move |Tup3(customer, phone, balance)| {
                let code: [u8; 2] = phone.bytes().get(..2)?.try_into().ok()?;
                codes.contains(&code).then(|| (*customer, Tup2(u16::from_be_bytes(code), *balance)))
            });
        let average = customers
            .flat_map_index(|(_, &Tup2(_, balance))| (balance > 0).then_some(((), balance)))
            .aggregate_linear(|balance| Tup2(Sum::from(*balance), 1_i64));
        let orders = tpch.read::<Tup1<Key>>("orders", &["o_custkey"]).map_index(|&Tup1(customer)| (customer, ()));
        let counted = customers
            .antijoin(&orders)
            .map_index(|(_, customer)| ((), *customer))
            // balance > sum / count, in whole numbers
            .join_index(&average, |(), &Tup2(code, balance), &Tup2(sum, count)| {
                (Sum::from(balance) * Sum::from(count) > sum).then_some((code, balance))
            })
            .aggregate_linear(|balance| Tup2(1_i64, Sum::from(*balance)));
        tpch.answer(&counted, |code, &Tup2(customers, balance), cells| {
            let code = code.to_be_bytes();
            cells.string(std::str::from_utf8(&code).expect("a code is a parameter, which is UTF-8"));
            cells.integer(customers);
            cells.decimal(balance, 2);
        });
    })
}
