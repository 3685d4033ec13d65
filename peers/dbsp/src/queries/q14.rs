//! Q14, promotion effect: the lines of the month meet the parts; the ratio of two sums is NULL while there are none.

use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::Sum;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Word, for_each_word};

const LINE: &[&str] = &["l_partkey", "l_shipdate", "l_extendedprice", "l_discount"];

pub fn q14(given: &Parameters) -> Result<Plan, String> {
    let start = given.date("date")?;
    let end = months_later(start, 1);
    plan(move |tpch| {
        let mut promoted = for_each_word(|type_| type_.starts_with("PROMO"));
        let parts = tpch
            .read::<Tup2<Key, Word>>("part", &["p_partkey", "p_type"])
            .flat_map_index(move |&Tup2(part, type_)| Some((part, promoted(type_))));
        let sums = tpch
            .read::<Tup4<Key, Date, Money, Money>>("lineitem", LINE)
            .flat_map_index(move |&Tup4(part, shipped, price, discount)| {
                (start..end).contains(&shipped).then(|| (part, price * (100 - discount)))
            })
            .join_index(&parts, |_, volume, promoted| Some(((), Tup2(*volume, *promoted))))
            .aggregate_linear_postprocess(
                |&Tup2(volume, promoted)| {
                    let volume = Sum::from(volume);
                    Tup3(if promoted { volume } else { 0 }, volume, 1_i64)
                },
                |Tup3(promoted, volume, _)| Tup2(promoted, volume),
            );
        let shares = tpch.or_null(&sums);
        tpch.answer(&shares, |(), share, cells| match *share {
            Some(Tup2(promoted, volume)) => cells.double(100.0 * promoted as f64 / volume as f64),
            None => cells.null(),
        });
    })
}
