//! Q19, discounted revenue: the parts of the three kinds bring the quantities that count; the lines that are delivered
//! by air in person meet them. The sum is NULL while there are none.

use dbsp::utils::{Tup2, Tup4, Tup6};

use super::{Plan, plan};
use crate::flow::sums;
use crate::parameters::Parameters;
use crate::types::{Key, Money, Word};

type Line = Tup6<Key, Money, Money, Money, Word, Word>;

const LINE: &[&str] = &["l_partkey", "l_quantity", "l_extendedprice", "l_discount", "l_shipinstruct", "l_shipmode"];

/// The parts of a brand in some containers, up to a size, and the least quantity of their lines.
#[derive(Clone)]
struct Kind {
    brand: Word,
    containers: [Word; 4],
    size: i32,
    least: Money,
}

const TEN: Money = 1000;

pub fn q19(given: &Parameters) -> Result<Plan, String> {
    let kind = |number: u32, containers: [&str; 4], size: i32| {
        Ok::<_, String>(Kind {
            brand: given.word(&format!("brand{number}"))?,
            containers: containers.map(Word::of),
            size,
            least: given.hundredths(&format!("quantity{number}"))?,
        })
    };
    let kinds = [
        kind(1, ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5)?,
        kind(2, ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10)?,
        kind(3, ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15)?,
    ];
    plan(move |tpch| {
        let kinds = kinds.clone();
        // A part is of one kind at most, since their containers differ.
        let parts = tpch
            .read::<Tup4<Key, Word, i32, Word>>("part", &["p_partkey", "p_brand", "p_size", "p_container"])
            .flat_map_index(move |&Tup4(part, brand, size, container)| {
                let is_of = |kind: &&Kind| {
                    kind.brand == brand && kind.containers.contains(&container) && (1..=kind.size).contains(&size)
                };
                kinds.iter().find(is_of).map(|kind| (part, kind.least))
            });
        let (in_person, by_air) = (Word::of("DELIVER IN PERSON"), [Word::of("AIR"), Word::of("AIR REG")]);
        let revenues = tpch
            .read::<Line>("lineitem", LINE)
            .flat_map_index(move |&Tup6(part, quantity, price, discount, instruction, mode)| {
                (instruction == in_person && by_air.contains(&mode))
                    .then(|| (part, Tup2(quantity, price * (100 - discount))))
            })
            .join_index(&parts, |_, &Tup2(quantity, revenue), least| {
                (*least..=least + TEN).contains(&quantity).then_some(((), revenue))
            });
        let revenue = tpch.or_null(&sums(&revenues));
        tpch.answer(&revenue, |(), revenue, cells| match revenue {
            Some(revenue) => cells.decimal(*revenue, 4),
            None => cells.null(),
        });
    })
}
