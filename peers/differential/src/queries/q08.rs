//! Q8, national market share: the lines meet the parts first, which leaves one in 150.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::dates::{date, year};
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Word};

const LINE: &[&str] = &["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"];
const FIRST: Date = date(1995, 1, 1);
const LAST: Date = date(1996, 12, 31);

pub fn q08(given: &Parameters) -> Result<Plan, String> {
    let (nation, region, wanted) = (given.word("nation")?, given.word("region")?, given.word("type")?);
    plan(move |tpch| {
        let regions = tpch
            .read::<(Key, Word)>("region", &["r_regionkey", "r_name"])
            .flat_map(move |(region_key, name)| (name == region).then_some(region_key));
        let nations = tpch.read::<(Key, Key, Word)>("nation", &["n_nationkey", "n_regionkey", "n_name"]);
        let members = nations
            .clone()
            .map(|(nation, region, _)| (region, nation))
            .join_core(regions.arrange_by_self(), |_, nation, ()| Some(*nation));
        let customers = tpch
            .read::<(Key, Key)>("customer", &["c_custkey", "c_nationkey"])
            .map(|(customer, nation)| (nation, customer))
            .join_core(members.arrange_by_self(), |_, customer, ()| Some(*customer));
        let orders = tpch
            .read::<(Key, Key, Date)>("orders", &["o_orderkey", "o_custkey", "o_orderdate"])
            .flat_map(|(order, customer, ordered)| {
                (FIRST..=LAST).contains(&ordered).then(|| (customer, (order, year(ordered))))
            })
            .join_core(customers.arrange_by_self(), |_, order, ()| Some(*order));
        let ours = nations.map(move |(key, _, name)| (key, name == nation));
        let suppliers = tpch
            .read::<(Key, Key)>("supplier", &["s_suppkey", "s_nationkey"])
            .map(|(supplier, nation)| (nation, supplier))
            .join_core(ours.arrange_by_key(), |_, supplier, ours| Some((*supplier, *ours)));
        let parts = tpch
            .read::<(Key, Word)>("part", &["p_partkey", "p_type"])
            .flat_map(move |(part, type_)| (type_ == wanted).then_some(part));
        let volumes = tpch
            .read::<(Key, Key, Key, Money, Money)>("lineitem", LINE)
            .map(|(order, part, supplier, price, discount)| (part, (order, supplier, price * (100 - discount))))
            .join_core(parts.arrange_by_self(), |_, (order, supplier, volume), ()| Some((*order, (*supplier, *volume))))
            .join_core(orders.arrange_by_key(), |_, (supplier, volume), year| Some((*supplier, (*year, *volume))))
            .join_core(suppliers.arrange_by_key(), |_, (year, volume), ours| Some((*year, *volume, *ours)));
        let shares = volumes
            .explode(|(year, volume, ours)| Some((year, Sums([if ours { volume } else { 0 }, volume, 1]))))
            .count_total();
        tpch.answer(shares, |(year, Sums([ours, volume, _])), cells| {
            cells.integer((*year).into());
            cells.decimal(*ours, 4);
            cells.decimal(*volume, 4);
        });
    })
}
