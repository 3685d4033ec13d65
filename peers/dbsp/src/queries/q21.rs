//! Q21, suppliers who kept orders waiting: the late lines of the nation's suppliers in finished orders, with another
//! supplier in their order (EXISTS), but no other late one (NOT EXISTS); the first hundred.

use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::parameters::Parameters;
use crate::types::{Date, Key, Text, Word};

const LINE: &[&str] = &["l_orderkey", "l_suppkey", "l_commitdate", "l_receiptdate"];

const LIMIT: usize = 100;

pub fn q21(given: &Parameters) -> Result<Plan, String> {
    let nation = given.word("nation")?;
    plan(move |tpch| {
        let nations = tpch
            .read::<Tup2<Key, Word>>("nation", &["n_nationkey", "n_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == nation).then_some((key, ())));
        let suppliers = tpch
            .read::<Tup3<Key, Key, Text>>("supplier", &["s_suppkey", "s_nationkey", "s_name"])
            .map_index(|Tup3(supplier, nation, name)| (*nation, Tup2(*supplier, name.clone())))
            .join_index(&nations, |_, Tup2(supplier, name), ()| Some((*supplier, name.clone())));
        let finished = Word::of("F");
        let orders = tpch
            .read::<Tup2<Key, Word>>("orders", &["o_orderkey", "o_orderstatus"])
            .flat_map_index(move |&Tup2(order, status)| (status == finished).then_some((order, ())));
        let lines = tpch.read::<Tup4<Key, Key, Date, Date>>("lineitem", LINE);
        let all = lines.map_index(|&Tup4(order, supplier, _, _)| (order, supplier));
        let late = lines.flat_map_index(|&Tup4(order, supplier, committed, received)| {
            (committed < received).then_some((order, supplier))
        });
        let candidates = late
            .join_index(&orders, |order, supplier, ()| Some((*supplier, *order)))
            .join_index(&suppliers, |supplier, order, name| Some((Tup2(*order, *supplier), name.clone())));
        let keys = candidates.map_index(|(&Tup2(order, supplier), _)| (order, supplier)).distinct();
        let other = |order: &Key, supplier: &Key, other: &Key| {
            (supplier != other).then_some((Tup2(*order, *supplier), ()))
        };
        let with_other = keys.join_index(&all, other).distinct();
        let with_other_late = keys.join_index(&late, other);
        let first = candidates
            .join_index(&with_other, |key, name, ()| Some((*key, name.clone())))
            .antijoin(&with_other_late)
            .map_index(|(_, name)| (name.clone(), ()))
            .weighted_count()
            .map_index(|(name, count)| ((), Tup2(-count, name.clone())))
            .topk_asc(LIMIT);
        tpch.answer(&first, |(), Tup2(count, name), cells| {
            cells.text(name);
            cells.integer(-count);
        });
    })
}
