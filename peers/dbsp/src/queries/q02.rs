//! Q2, minimum cost supplier: the offers for the parts by suppliers of the region meet the least cost of their part; the
//! first hundred.

use dbsp::operator::{CmpFunc, Min};
use dbsp::utils::{Tup2, Tup3, Tup4, Tup7, Tup8};

use super::{Plan, plan};
use crate::parameters::Parameters;
use crate::types::{Key, Money, Text, Word, for_each_word};

type Supplier = Tup7<Key, Key, Money, Text, Text, Text, Text>;
/// The columns of the answer in the order of ORDER BY, with the largest balance first.
type Row = Tup8<Money, Text, Text, Key, Text, Text, Text, Text>;

const SUPPLIER: &[&str] = &["s_suppkey", "s_nationkey", "s_acctbal", "s_name", "s_address", "s_phone", "s_comment"];

const LIMIT: usize = 100;

struct Ascending;

impl CmpFunc<Row> for Ascending {
    fn cmp(left: &Row, right: &Row) -> std::cmp::Ordering {
        left.cmp(right)
    }
}

pub fn q02(given: &Parameters) -> Result<Plan, String> {
    let (size, metal, region) = (given.integer("size")?, given.text("metal")?, given.word("region")?);
    plan(move |tpch| {
        let regions = tpch
            .read::<Tup2<Key, Word>>("region", &["r_regionkey", "r_name"])
            .flat_map_index(move |&Tup2(key, name)| (name == region).then_some((key, ())));
        let nations = tpch
            .read::<Tup3<Key, Key, Text>>("nation", &["n_nationkey", "n_regionkey", "n_name"])
            .map_index(|Tup3(nation, region, name)| (*region, Tup2(*nation, name.clone())))
            .join_index(&regions, |_, Tup2(nation, name), ()| Some((*nation, name.clone())));
        let suppliers = tpch
            .read::<Supplier>("supplier", SUPPLIER)
            .map_index(|Tup7(supplier, nation, balance, name, address, phone, comment)| {
                let texts = Tup4(name.clone(), address.clone(), phone.clone(), comment.clone());
                (*nation, Tup3(*supplier, *balance, texts))
            })
            .join_index(&nations, |_, Tup3(supplier, balance, texts), nation| {
                Some((*supplier, Tup3(*balance, nation.clone(), texts.clone())))
            });
        let metal = metal.clone();
        let mut of_metal = for_each_word(move |type_| type_.ends_with(&metal));
        let parts = tpch
            .read::<Tup4<Key, i64, Word, Text>>("part", &["p_partkey", "p_size", "p_type", "p_mfgr"])
            .flat_map_index(move |Tup4(part, sized, type_, maker)| {
                (*sized == size && of_metal(*type_)).then(|| (*part, maker.clone()))
            });
        let offers = tpch
            .read::<Tup3<Key, Key, Money>>("partsupp", &["ps_partkey", "ps_suppkey", "ps_supplycost"])
            .map_index(|&Tup3(part, supplier, cost)| (part, Tup2(supplier, cost)))
            .join_index(&parts, |part, &Tup2(supplier, cost), maker| {
                Some((supplier, Tup3(*part, cost, maker.clone())))
            })
            .join_index(&suppliers, |_, Tup3(part, cost, maker), Tup3(balance, nation, texts)| {
                let Tup4(name, address, phone, comment) = texts.clone();
                let row = Tup8(-balance, nation.clone(), name, *part, maker.clone(), address, phone, comment);
                Some((Tup2(*part, *cost), row))
            });
        let least = offers
            .map_index(|(Tup2(part, cost), _)| (*part, *cost))
            .aggregate(Min)
            .map_index(|(part, cost)| (Tup2(*part, *cost), ()));
        let first = offers
            .join_index(&least, |_, row, ()| Some(((), row.clone())))
            // Equal rows count one by one, which they do not in `topk_asc`.
            .topk_row_number_custom_order::<Ascending, _, _>(LIMIT, |number, row| Tup2(number, row.clone()))
            .map_index(|((), Tup2(_, row))| ((), row.clone()));
        tpch.answer(&first, |(), row, cells| {
            let Tup8(balance, nation, name, part, maker, address, phone, comment) = row;
            cells.decimal(-balance, 2);
            cells.text(name);
            cells.text(nation);
            cells.key(*part);
            [maker, address, phone, comment].into_iter().for_each(|text| cells.text(text));
        });
    })
}
