//! Q16, parts and suppliers: the offers for the parts lose the suppliers with complaints; the rest is counted without
//! duplicates.

use dbsp::utils::{Tup2, Tup3, Tup4};
use memchr::memmem::Finder;

use super::{Plan, plan};
use crate::parameters::Parameters;
use crate::types::{Key, Text, Word, for_each_word};

pub fn q16(given: &Parameters) -> Result<Plan, String> {
    let (brand, kind, sizes) = (given.word("brand")?, given.text("type")?, given.integers("sizes")?);
    plan(move |tpch| {
        let (sizes, kind) = (sizes.clone(), kind.clone());
        let mut of_kind = for_each_word(move |type_| type_.starts_with(&kind));
        let parts = tpch
            .read::<Tup4<Key, Word, Word, i32>>("part", &["p_partkey", "p_brand", "p_type", "p_size"])
            .flat_map_index(move |&Tup4(part, by, type_, size)| {
                (by != brand && sizes.contains(&size) && !of_kind(type_)).then_some((part, Tup3(by, type_, size)))
            });
        let (customer, complaints) = (Finder::new("Customer"), Finder::new("Complaints"));
        let excluded = tpch.read::<Tup2<Key, Text>>("supplier", &["s_suppkey", "s_comment"]).flat_map_index(
            move |Tup2(supplier, comment)| {
                let start = customer.find(comment.bytes())? + customer.needle().len();
                complaints.find(&comment.bytes()[start..]).map(|_| (*supplier, ()))
            },
        );
        let counted = tpch
            .read::<Tup2<Key, Key>>("partsupp", &["ps_partkey", "ps_suppkey"])
            .map_index(|&Tup2(part, supplier)| (part, supplier))
            .join_index(&parts, |_, supplier, part| Some((*supplier, *part)))
            .antijoin(&excluded)
            .map_index(|(supplier, part)| (*part, *supplier))
            .distinct_count();
        tpch.answer(&counted, |&Tup3(brand, type_, size), suppliers, cells| {
            cells.word(brand);
            cells.word(type_);
            cells.integer(size.into());
            cells.integer(*suppliers);
        });
    })
}
