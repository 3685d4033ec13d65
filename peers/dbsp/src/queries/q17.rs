//! Q17, small-quantity-order revenue: the lines of the few parts meet the average of their part.

use dbsp::utils::{Tup2, Tup3};

use super::{Plan, plan};
use crate::flow::{Sum, sums};
use crate::parameters::Parameters;
use crate::types::{Key, Money, Word};

const LINE: &[&str] = &["l_partkey", "l_quantity", "l_extendedprice"];

pub fn q17(given: &Parameters) -> Result<Plan, String> {
    let (brand, container) = (given.word("brand")?, given.word("container")?);
    plan(move |tpch| {
        let parts = tpch
            .read::<Tup3<Key, Word, Word>>("part", &["p_partkey", "p_brand", "p_container"])
            .flat_map_index(move |&Tup3(part, by, within)| (by == brand && within == container).then_some((part, ())));
        let lines = tpch
            .read::<Tup3<Key, Money, Money>>("lineitem", LINE)
            .map_index(|&Tup3(part, quantity, price)| (part, Tup2(quantity, price)))
            .join_index(&parts, |part, line, ()| Some((*part, *line)));
        let averages = lines.aggregate_linear(|&Tup2(quantity, _)| Tup2(Sum::from(quantity), 1_i64));
        // quantity < 0.2 * sum / count, in whole numbers
        let small = lines.join_index(&averages, |_, &Tup2(quantity, price), &Tup2(sum, count)| {
            (Sum::from(5 * quantity * count) < sum).then_some(((), price))
        });
        let price = tpch.or_null(&sums(&small));
        tpch.answer(&price, |(), price, cells| match price {
            Some(price) => cells.double(*price as f64 / 700.0),
            None => cells.null(),
        });
    })
}
