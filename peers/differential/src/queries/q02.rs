//! Q2, minimum cost supplier: the offers for the parts are joined with the suppliers of the region, and the cheapest of
//! each part compete for the first hundred places.

use std::cmp::Reverse;

use super::{Plan, plan};
use crate::flow::first;
use crate::parameters::Parameters;
use crate::types::{Key, Money, Text, Word, for_each_word};

type Supplier = (Key, Key, Money, Text, Text, Text, Text);

const SUPPLIER: &[&str] = &["s_suppkey", "s_nationkey", "s_acctbal", "s_name", "s_address", "s_phone", "s_comment"];

const LIMIT: isize = 100;

pub fn q02(given: &Parameters) -> Result<Plan, String> {
    let (size, metal, region) = (given.integer("size")?, given.text("metal")?, given.word("region")?);
    plan(move |tpch| {
        let regions = tpch
            .read::<(Key, Word)>("region", &["r_regionkey", "r_name"])
            .flat_map(move |(region_key, name)| (name == region).then_some(region_key));
        let nations = tpch
            .read::<(Key, Key, Text)>("nation", &["n_nationkey", "n_regionkey", "n_name"])
            .map(|(nation, region, name)| (region, (nation, name)))
            .join_core(regions.arrange_by_self(), |_, (nation, name), ()| Some((*nation, name.clone())));
        let suppliers = tpch
            .read::<Supplier>("supplier", SUPPLIER)
            .map(|(supplier, nation, balance, name, address, phone, comment)| {
                (nation, (supplier, balance, name, address, phone, comment))
            })
            .join_core(nations.arrange_by_key(), |_, (supplier, balance, name, address, phone, comment), nation| {
                let texts = (address.clone(), phone.clone(), comment.clone());
                Some((*supplier, (Reverse(*balance), nation.clone(), name.clone(), texts)))
            });
        let mut of_metal = for_each_word({
            let metal = metal.clone();
            move |type_| type_.ends_with(&metal)
        });
        let parts = tpch
            .read::<(Key, i64, Word, Word)>("part", &["p_partkey", "p_size", "p_type", "p_mfgr"])
            .flat_map(move |(part, sized, type_, maker)| (sized == size && of_metal(type_)).then_some((part, maker)));
        let cheapest = tpch
            .read::<(Key, Key, Money)>("partsupp", &["ps_partkey", "ps_suppkey", "ps_supplycost"])
            .map(|(part, supplier, cost)| (part, (supplier, cost)))
            .join_core(parts.arrange_by_key(), |part, (supplier, cost), maker| {
                Some((*supplier, (*cost, *part, *maker)))
            })
            .join_core(suppliers.arrange_by_key(), |_, (cost, part, maker), (balance, nation, name, texts)| {
                // The order of these columns is that of ORDER BY.
                let row = (*balance, nation.clone(), name.clone(), *part, *maker, texts.clone());
                Some((*part, (*cost, row)))
            })
            .reduce(|_, offers, cheapest| {
                let least = offers[0].0.0;
                let ties = offers.iter().take_while(|(offer, _)| offer.0 == least);
                cheapest.extend(ties.map(|(offer, count)| (offer.1.clone(), *count)));
            })
            .map(|(_, row)| row);
        tpch.answer(first(cheapest, LIMIT, 500, |row| row.3), |row, cells| {
            let (Reverse(balance), nation, name, part, maker, (address, phone, comment)) = row;
            cells.decimal(*balance, 2);
            cells.text(name);
            cells.text(nation);
            cells.key(*part);
            cells.word(*maker);
            [address, phone, comment].into_iter().for_each(|text| cells.text(text));
        });
    })
}
