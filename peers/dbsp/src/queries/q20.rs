//! Q20, potential part promotion: the stock of the parts of the color meets the quantity that was sold in the year.

use dbsp::utils::{Tup2, Tup3, Tup4};

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::{Sum, sums};
use crate::parameters::Parameters;
use crate::types::{Date, Key, Money, Text, Word};

const LINE: &[&str] = &["l_partkey", "l_suppkey", "l_shipdate", "l_quantity"];

pub fn q20(given: &Parameters) -> Result<Plan, String> {
    let (color, start, nation) = (given.text("color")?, given.date("date")?, given.word("nation")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let color = color.clone();
        let parts = tpch
            .read::<Tup2<Key, Text>>("part", &["p_partkey", "p_name"])
            .flat_map_index(move |Tup2(part, name)| {
                name.bytes().starts_with(color.as_bytes()).then_some((*part, ()))
            })
            .distinct();
        let sales = tpch
            .read::<Tup4<Key, Key, Date, Money>>("lineitem", LINE)
            .flat_map_index(move |&Tup4(part, supplier, shipped, quantity)| {
                (start..end).contains(&shipped).then_some((part, Tup2(supplier, quantity)))
            })
            .join_index(&parts, |part, &Tup2(supplier, quantity), ()| Some((Tup2(*part, supplier), quantity)));
        let surplus = tpch
            .read::<Tup3<Key, Key, i64>>("partsupp", &["ps_partkey", "ps_suppkey", "ps_availqty"])
            .map_index(|&Tup3(part, supplier, quantity)| (part, Tup2(supplier, quantity)))
            .join_index(&parts, |part, &Tup2(supplier, quantity), ()| Some((Tup2(*part, supplier), quantity)))
            // quantity > 0.5 * sold, in hundredths
            .join_index(&sums(&sales), |Tup2(_, supplier), quantity, sold| {
                (Sum::from(200 * quantity) > *sold).then_some((*supplier, ()))
            })
            .distinct();
        let nations = tpch
            .read::<Tup2<Key, Word>>("nation", &["n_nationkey", "n_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == nation).then_some((key, ())));
        let suppliers = tpch
            .read::<Tup4<Key, Key, Text, Text>>("supplier", &["s_suppkey", "s_nationkey", "s_name", "s_address"])
            .map_index(|Tup4(supplier, nation, name, address)| {
                (*nation, Tup3(*supplier, name.clone(), address.clone()))
            })
            .join_index(&nations, |_, Tup3(supplier, name, address), ()| {
                Some((*supplier, Tup2(name.clone(), address.clone())))
            })
            .join_index(&surplus, |_, Tup2(name, address), ()| Some((name.clone(), address.clone())));
        tpch.answer(&suppliers, |name, address, cells| {
            cells.text(name);
            cells.text(address);
        });
    })
}
