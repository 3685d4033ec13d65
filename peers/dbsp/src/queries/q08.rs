//! Q8, national market share: the lines meet the parts first, which leaves one in 150.

use dbsp::utils::{Tup2, Tup3, Tup5};

use super::{Plan, plan};
use crate::dates::{date, year};
use crate::flow::Sum;
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"];
const FIRST: Date = date(1995, 1, 1);
const LAST: Date = date(1996, 12, 31);

pub fn q08(given: &Parameters) -> Result<Plan, String> {
    let (nation, region, wanted) = (given.word("nation")?, given.word("region")?, given.word("type")?);
    plan(move |tpch| {
        let regions = tpch
            .read::<Tup2<Key, Word>>("region", &["r_regionkey", "r_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == region).then_some((key, ())));
        let nations = tpch.read::<Tup3<Key, Key, Word>>("nation", &["n_nationkey", "n_regionkey", "n_name"]);
        let members = nations
            .map_index(|&Tup3(nation, region, _)| (region, nation))
            .join_index(&regions, |_, nation, ()| Some((*nation, ())));
        let customers = tpch
            .read::<Tup2<Key, Key>>("customer", &["c_custkey", "c_nationkey"])
            .map_index(|&Tup2(customer, nation)| (nation, customer))
            .join_index(&members, |_, customer, ()| Some((*customer, ())));
        let orders = tpch
            .read::<Tup3<Key, Key, Date>>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map_index(|&Tup3(order, customer, ordered)| {
                (FIRST..=LAST).contains(&ordered).then(|| (customer, Tup2(order, year(ordered))))
            })
            .join_index(&customers, |_, &Tup2(order, year), ()| Some((order, year)));
        let ours = nations.map_index(move |&Tup3(key, _, name)| (key, name == nation));
        let suppliers = tpch
            .read::<Tup2<Key, Key>>("supplier", &["s_suppkey", "s_nationkey"])
            .map_index(|&Tup2(supplier, nation)| (nation, supplier))
            .join_index(&ours, |_, supplier, ours| Some((*supplier, *ours)));
        let parts = tpch
            .read::<Tup2<Key, Word>>("part", &["p_partkey", "p_type"])
            .flat_map_index(move |&Tup2(part, type_)| (type_ == wanted).then_some((part, ())));
        let shares = tpch
            .read::<Tup5<Key, Key, Key, Money, Money>>("lineitem", LINE)
            .map_index(|&Tup5(order, part, supplier, price, discount)| {
                (part, Tup3(order, supplier, price * (100 - discount)))
            })
            .join_index(&parts, |_, &Tup3(order, supplier, volume), ()| Some((order, Tup2(supplier, volume))))
            .join_index(&orders, |_, &Tup2(supplier, volume), year| Some((supplier, Tup2(*year, volume))))
            .join_index(&suppliers, |_, &Tup2(year, volume), ours| Some((year, Tup2(volume, *ours))))
            .aggregate_linear_postprocess(
                |&Tup2(volume, ours)| {
                    let volume = Sum::from(volume);
                    Tup3(if ours { volume } else { 0 }, volume, 1_i64)
                },
                |Tup3(ours, volume, _)| Tup2(ours, volume),
            );
        tpch.answer(&shares, |year, &Tup2(ours, volume), cells| {
            cells.integer((*year).into());
            cells.double(ours as f64 / volume as f64);
        });
    })
}
