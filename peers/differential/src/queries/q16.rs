//! Q16, parts and suppliers: the offers for the parts lose the few suppliers with complaints before they are made
//! distinct.

use differential_dataflow::operators::CountTotal;
use memchr::memmem::Finder;

use super::{Plan, plan};
use crate::flow::distinct;
use crate::parameters::Parameters;
use crate::types::{Key, Text, Word, for_each_word};

pub fn q16(given: &Parameters) -> Result<Plan, String> {
    let (brand, kind, sizes) = (given.word("brand")?, given.text("type")?, given.integers("sizes")?);
    plan(move |tpch| {
        let (sizes, kind) = (sizes.clone(), kind.clone());
        let mut of_kind = for_each_word(move |type_| type_.starts_with(&kind));
        let parts = tpch
            .read::<(Key, Word, Word, i32)>("part", &["p_partkey", "p_brand", "p_type", "p_size"])
            .flat_map(move |(part, by, type_, size)| {
                (by != brand && sizes.contains(&size) && !of_kind(type_)).then_some((part, (by, type_, size)))
            });
        let (customer, complaints) = (Finder::new("Customer"), Finder::new("Complaints"));
        let complaints = tpch
            .read::<(Key, Text)>("supplier", &["s_suppkey", "s_comment"])
            .flat_map(move |(supplier, comment)| {
                let start = customer.find(comment.bytes())? + customer.needle().len();
                complaints.find(&comment.bytes()[start..]).map(|_| supplier)
            });
        let offers = tpch
            .read::<(Key, Key)>("partsupp", &["ps_partkey", "ps_suppkey"])
            .join_core(parts.arrange_by_key(), |_, supplier, part| Some((*supplier, *part)));
        let excluded =
            offers.clone().join_core(distinct(complaints).arrange_by_self(), |supplier, part, ()| Some((*supplier, *part)));
        let counted =
            distinct(offers.concat(excluded.negate())).map(|(_, part)| part).count_total();
        tpch.answer(counted, |((brand, type_, size), suppliers), cells| {
            cells.word(*brand);
            cells.word(*type_);
            cells.integer((*size).into());
            cells.integer(*suppliers as i64);
        });
    })
}
