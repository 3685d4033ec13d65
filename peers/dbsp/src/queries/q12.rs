//! Q12, shipping modes: the few late lines meet the orders; two counts by mode.

use dbsp::utils::{Tup2, Tup5};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Word};

const LINE: &[&str] = &["l_orderkey", "l_shipmode", "l_shipdate", "l_commitdate", "l_receiptdate"];

pub fn q12(given: &Parameters) -> Result<Plan, String> {
    let (modes, start) = (given.words("modes")?, given.date("date")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let modes = modes.clone();
        let urgent = [Word::of("1-URGENT"), Word::of("2-HIGH")];
        let orders = tpch
            .read::<Tup2<Key, Word>>("orders", &["o_orderkey", "o_orderpriority"])
            .map_index(move |&Tup2(order, priority)| (order, urgent.contains(&priority)));
        let counted = tpch
            .read::<Tup5<Key, Word, Date, Date, Date>>("lineitem", LINE)
            .flat_map_index(move |&Tup5(order, mode, shipped, committed, received)| {
                let late = committed < received && shipped < committed && (start..end).contains(&received);
                (late && modes.contains(&mode)).then_some((order, mode))
            })
            .join_index(&orders, |_, mode, urgent| Some((*mode, *urgent)))
            .aggregate_linear(|urgent| Tup2(i64::from(*urgent), i64::from(!urgent)));
        tpch.answer(&counted, |mode, &Tup2(high, low), cells| {
            cells.word(*mode);
            cells.integer(high);
            cells.integer(low);
        });
    })
}
