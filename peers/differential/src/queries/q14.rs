//! Q14, promotion effect: the lines of the month are joined with the parts; the ratio is NULL while there are none.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Word, for_each_word};

const LINE: &[&str] = &["l_partkey", "l_shipdate", "l_extendedprice", "l_discount"];

pub fn q14(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 1);
    plan(move |tpch| {
        let mut promoted = for_each_word(|type_| type_.starts_with("PROMO"));
        let parts = tpch
            .read::<(Key, Word)>("part", &["p_partkey", "p_type"])
            .map(move |(part, type_)| (part, promoted(type_)));
        let shares = tpch
            .read::<(Key, Date, Money, Money)>("lineitem", LINE)
            .flat_map(move |(part, shipped, price, discount)| {
                (start..end).contains(&shipped).then(|| (part, price * (100 - discount)))
            })
            .join_core(parts.arrange_by_key(), |_, volume, promoted| Some((*volume, *promoted)))
            .explode(|(volume, promoted)| Some(((), Sums([if promoted { 100 * volume } else { 0 }, volume, 1]))))
        // One row more than there are, so that the ratio of none is a change from the beginning.
        .concat(tpch.always((), Sums([0, 0, 1])))
        .count_total()
        .map(|((), Sums([percents, volume, rows]))| (rows > 1).then_some((percents, volume)));
        tpch.answer(shares, |share, cells| match share {
            Some((percents, volume)) => {
                cells.decimal(*percents, 4);
                cells.decimal(*volume, 4);
            }
            None => {
                cells.null();
                cells.null();
            }
        });
    })
}
