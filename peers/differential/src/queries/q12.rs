//! Q12, shipping modes: the few late lines are joined with the orders, and counted by priority as differences.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Word};

const LINE: &[&str] = &["l_orderkey", "l_shipmode", "l_shipdate", "l_commitdate", "l_receiptdate"];

pub fn q12(given: &Parameters) -> Result<Plan, String> {
    let (modes, start) = (given.words("modes")?, given.date("date")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let modes = modes.clone();
        let urgent = [Word::of("1-URGENT"), Word::of("2-HIGH")];
        let orders = tpch
            .read::<(Key, Word)>("orders", &["o_orderkey", "o_orderpriority"])
            .map(move |(order, priority)| (order, urgent.contains(&priority)));
        let counted = tpch
            .read::<(Key, Word, Date, Date, Date)>("lineitem", LINE)
            .flat_map(move |(order, mode, shipped, committed, received)| {
                let late = committed < received && shipped < committed && (start..end).contains(&received);
                (late && modes.contains(&mode)).then_some((order, mode))
            })
            .join_core(orders.arrange_by_key(), |_, mode, urgent| Some((*mode, *urgent)))
            .explode(|(mode, urgent)| Some((mode, Sums([urgent.into(), (!urgent).into()]))))
            .count_total();
        tpch.answer(counted, |(mode, Sums([high, low])), cells| {
            cells.word(*mode);
            cells.integer(*high);
            cells.integer(*low);
        });
    })
}
