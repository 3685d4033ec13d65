//! Q20, potential part promotion: the year's sales meet the stock of the parts of the color, and a threshold on their
//! sum leaves the stock above half of it.

use differential_dataflow::operators::ThresholdTotal;

use super::{Plan, plan};
use crate::dates::months_later;
use crate::flow::distinct;
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Money, Text, Word};

const LINE: &[&str] = &["l_partkey", "l_suppkey", "l_shipdate", "l_quantity"];

pub fn q20(given: &Parameters) -> Result<Plan, String> {
    let (color, start, nation) = (given.text("color")?, given.date("date")?, given.word("nation")?);
    let end = months_later(start, 12);
    plan(move |tpch| {
        let color = color.clone();
        let parts = tpch
            .read::<(Key, Text)>("part", &["p_partkey", "p_name"])
            .flat_map(move |(part, name)| name.bytes().starts_with(color.as_bytes()).then_some(part));
        let stock = tpch
            .read::<(Key, Key, i64)>("partsupp", &["ps_partkey", "ps_suppkey", "ps_availqty"])
            .map(|(part, supplier, quantity)| (part, (supplier, quantity)))
            .join_core(parts.arrange_by_self(), |part, (supplier, quantity), ()| {
                Some(((*part, *supplier), *quantity))
            });
        let suppliers_with_stock = tpch
            .read::<(Key, Key, Date, Money)>("lineitem", LINE)
            .flat_map(move |(part, supplier, shipped, quantity)| {
                (start..end).contains(&shipped).then_some(((part, supplier), quantity))
            })
            .join_core(stock.arrange_by_key(), |(part, supplier), sold, quantity| {
                Some(((*part, *supplier, *quantity), *sold))
            })
            .explode(|(stock, sold)| Some((stock, Sums([sold, 1]))))
            // quantity > 0.5 * sold, in hundredths
            .threshold_total(|(_, _, quantity), Sums([sold, lines])| {
                isize::from(*lines > 0 && 200 * quantity > *sold)
            })
            .map(|(_, supplier, _)| supplier);
        let nations = tpch
            .read::<(Key, Word)>("nation", &["n_nationkey", "n_name"])
            .flat_map(move |(key, name)| (name == nation).then_some(key));
        let answer = tpch
            .read::<(Key, Key, Text, Text)>("supplier", &["s_suppkey", "s_nationkey", "s_name", "s_address"])
            .map(|(supplier, nation, name, address)| (nation, (supplier, name, address)))
            .join_core(nations.arrange_by_self(), |_, (supplier, name, address), ()| {
                Some((*supplier, (name.clone(), address.clone())))
            })
            .join_core(distinct(suppliers_with_stock).arrange_by_self(), |_, texts, ()| Some(texts.clone()));
        tpch.answer(answer, |(name, address), cells| {
            cells.text(name);
            cells.text(address);
        });
    })
}
