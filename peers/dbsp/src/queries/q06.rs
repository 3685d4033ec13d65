//! Q6, forecasting revenue change: one sum, which is NULL while it has no rows.

use dbsp::utils::Tup4;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Date, Money};

const LINE: &[&str] = &["l_shipdate", "l_discount", "l_quantity", "l_extendedprice"];

pub fn q06(given: &Parameters) -> Result<Plan, String> {
    let (start, discount, limit) = (given.date("date")?, given.hundredths("discount")?, given.hundredths("quantity")?);
    let (end, discounts) = (months_later(start, 12), discount - 1..=discount + 1);
    plan(move |tpch| {
        let discounts = discounts.clone();
        let revenues = tpch.read::<Tup4<Date, Money, Money, Money>>("lineitem", LINE).flat_map_index(
            move |&Tup4(shipped, discount, quantity, price)| {
                ((start..end).contains(&shipped) && discounts.contains(&discount) && quantity < limit)
                    .then(|| ((), price * discount))
            },
        );
        let revenue = tpch.or_null(&sums(&revenues));
        tpch.answer(&revenue, |(), revenue, cells| match revenue {
            Some(revenue) => cells.decimal(*revenue, 4),
            None => cells.null(),
        });
    })
}
