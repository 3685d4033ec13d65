//! Q17, small-quantity-order revenue: the lines of the few parts are grouped by quantity, so each part has at most fifty
//! quantities, whose prices are sums of differences.

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
            .explode(|(part, quantity, price)| Some(((part, quantity), Sums([price, 1]))))
            .join_core(parts.arrange_by_self(), |part, quantity, ()| Some((*part, *quantity)))
            .reduce(|_, quantities, small: &mut Vec<(Sums<2>, isize)>| {
                let (mut all, mut lines) = (0, 0);
                for (quantity, Sums([_, count])) in quantities {
                    all += **quantity * count;
                    lines += count;
                }
                // quantity < 0.2 * all / lines, in whole numbers
                let mut sums = [0, 0];
                for (_, Sums([price, count])) in quantities.iter().take_while(|(each, _)| 5 * **each * lines < all) {
                    sums = [sums[0] + price, sums[1] + count];
                }
                if sums[1] > 0 {
                    small.push((Sums(sums), 1));
                }
            })
            .explode(|(_, sums)| Some(((), sums)))
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
