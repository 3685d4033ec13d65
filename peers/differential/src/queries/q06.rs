//! Q6, forecasting revenue change: one sum of differences, which is NULL while it has no rows.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Money};

const LINE: &[&str] = &["l_shipdate", "l_discount", "l_quantity", "l_extendedprice"];

pub fn q06(given: &Parameters) -> Result<Plan, String> {
    let (start, discount, limit) = (given.date("date")?, given.hundredths("discount")?, given.hundredths("quantity")?);
    let (end, discounts) = (months_later(start, 12), discount - 1..=discount + 1);
    plan(move |tpch| {
        let discounts = discounts.clone();
        let revenue = tpch
            .read::<(Date, Money, Money, Money)>("lineitem", LINE)
            .explode(move |(shipped, discount, quantity, price)| {
                ((start..end).contains(&shipped) && discounts.contains(&discount) && quantity < limit)
                    .then(|| ((), Sums([price * discount, 1])))
            })
            // One row more than there are, so that the sum of none is a change from the beginning.
            .concat(tpch.always((), Sums([0, 1])))
            .count_total()
            .map(|((), Sums([revenue, rows]))| (rows > 1).then_some(revenue));
        tpch.answer(revenue, |revenue, cells| match revenue {
            Some(revenue) => cells.decimal(*revenue, 4),
            None => cells.null(),
        });
    })
}
