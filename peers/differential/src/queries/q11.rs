//! Q11, important stock: the value of each part is compared with a share of the whole by their digits, so that no time
//! rescans all parts.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::flow::above;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Key, Money, Word};

/// Values of parts have about 32 bits at every scale factor; larger ones meet at the first digit.
const PLACES: &[u32] = &[0, 12, 16, 20, 24, 28, 32];

pub fn q11(given: &Parameters) -> Result<Plan, String> {
    let nation = given.word("nation")?;
    let (inverse, scale) = given.decimal("inverse_fraction")?;
    if inverse <= 0 {
        return Err(format!("parameter inverse_fraction is not positive: {inverse}"));
    }
    plan(move |tpch| {
        let nations = tpch
            .read::<(Key, Word)>("nation", &["n_nationkey", "n_name"])
            .flat_map(move |(key, name)| (name == nation).then_some(key));
        let suppliers = tpch
            .read::<(Key, Key)>("supplier", &["s_suppkey", "s_nationkey"])
            .map(|(supplier, nation)| (nation, supplier))
            .join_core(nations.arrange_by_self(), |_, supplier, ()| Some(*supplier));
        let stock = tpch
            .read::<(Key, Key, i64, Money)>("partsupp", &["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost"])
            .map(|(part, supplier, quantity, cost)| (supplier, (part, cost * quantity)))
            .join_core(suppliers.arrange_by_self(), |_, stock, ()| Some(*stock))
            .explode(|(part, value)| Some((part, Sums([value, 1]))));
        let values = stock.clone().count_total().map(|(part, Sums([value, _]))| (value, part));
        // value * inverse > all, in whole numbers
        let threshold = stock.map(|_| ()).count_total().map(move |((), Sums([all, _]))| {
            let quotient = (i128::from(all) * 10_i128.pow(scale)).div_euclid(inverse.into());
            i64::try_from(quotient).unwrap_or(i64::MAX)
        });
        tpch.answer(above(values, threshold, PLACES), |(value, part), cells| {
            cells.key(*part);
            cells.decimal(*value, 2);
        });
    })
}
