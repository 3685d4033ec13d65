//! Q11, important stock: the value of each part is joined with the value of all, which has no key.

use dbsp::utils::{Tup2, Tup4};

use super::{Plan, plan};
use crate::flow::{Sum, sums};
use crate::parameters::Parameters;
use crate::types::{Key, Money, Word};

const OFFER: &[&str] = &["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost"];

pub fn q11(given: &Parameters) -> Result<Plan, String> {
    let nation = given.word("nation")?;
    // value * inverse > whole, in whole numbers
    let (inverse, scale) = given.decimal("inverse_fraction")?;
    let (inverse, unit) = (Sum::from(inverse), Sum::pow(10, scale));
    plan(move |tpch| {
        let nations = tpch
            .read::<Tup2<Key, Word>>("nation", &["n_nationkey", "n_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == nation).then_some((key, ())));
        let suppliers = tpch
            .read::<Tup2<Key, Key>>("supplier", &["s_suppkey", "s_nationkey"])
            .map_index(|&Tup2(supplier, nation)| (nation, supplier))
            .join_index(&nations, |_, supplier, ()| Some((*supplier, ())));
        let stock = tpch
            .read::<Tup4<Key, Key, i64, Money>>("partsupp", OFFER)
            .map_index(|&Tup4(part, supplier, quantity, cost)| (supplier, Tup2(part, cost * quantity)))
            .join_index(&suppliers, |_, &Tup2(part, value), ()| Some((part, value)));
        let whole = sums(&stock.map_index(|(_, value)| ((), *value)));
        let important = sums(&stock)
            .map_index(|(part, value)| ((), Tup2(*part, *value)))
            .join_index(&whole, move |(), &Tup2(part, value), whole| {
                (value * inverse > whole * unit).then_some((part, value))
            });
        tpch.answer(&important, |part, value, cells| {
            cells.key(*part);
            cells.decimal(*value, 2);
        });
    })
}
