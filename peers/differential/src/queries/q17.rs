//! Q17, small-quantity-order revenue: the lines of the few parts are reduced by part to the sum of the small ones.

use differential_dataflow::operators::CountTotal;

use super::{Plan, plan};
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Key, Money, Word};

const LINE: &[&str] = &["l_partkey", "l_quantity", "l_extendedprice"];

pub fn q17(given: &Parameters) -> Result<Plan, String> {
    let (brand, container) = (given.word("brand")?, given.word("container")?);
    plan(move |tpch| {
        let parts = tpch
            .read::<(Key, Word, Word)>("part", &["p_partkey", "p_brand", "p_container"])
            .flat_map(move |(part, by, within)| (by == brand && within == container).then_some(part));
        let prices = tpch
            .read::<(Key, Money, Money)>("lineitem", LINE)
            .map(|(part, quantity, price)| (part, (quantity, price)))
            .join_core(parts.arrange_by_self(), |part, line, ()| Some((*part, *line)))
            .reduce(|_, lines, small| {
                let all = lines.iter().fold(Sums([0, 0]), |Sums([quantities, count]), ((quantity, _), times)| {
                    Sums([quantities + quantity * *times as i64, count + *times as i64])
                });
                // The lines are in the order of their quantity; quantity < 0.2 * all / count, in whole numbers.
                let first = lines.iter().take_while(|((quantity, _), _)| 5 * quantity * all.0[1] < all.0[0]);
                let sums = first.fold(Sums([0, 0]), |Sums([prices, count]), ((_, price), times)| {
                    Sums([prices + price * *times as i64, count + *times as i64])
                });
                if sums.0[1] > 0 {
                    small.push((sums, 1));
                }
            })
            .explode(|(_, sums): (Key, Sums<2>)| Some(((), sums)))
            // One row more than there are, so that the sum of none is a change from the beginning.
            .concat(tpch.always((), Sums([0, 1])))
            .count_total()
            .map(|((), Sums([price, rows]))| (rows > 1).then_some(price));
        tpch.answer(prices, |price, cells| match price {
            Some(price) => {
                cells.decimal(*price, 2);
                cells.integer(7);
            }
            None => {
                cells.null();
                cells.null();
            }
        });
    })
}
