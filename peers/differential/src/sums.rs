//! Sums as differences: differential dataflow adds differences up by itself, so rows need not carry what is summed.

use differential_dataflow::difference::{Abelian, IsZero, Monoid, Multiply, Semigroup};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::flow::Diff;

/// Sums that are kept together, such as a revenue and the number of its rows. The arithmetic of this
/// program is checked, so a sum beyond 64 bits ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sums<const N: usize>(pub [i64; N]);

impl<const N: usize> IsZero for Sums<N> {
    #[inline]
    fn is_zero(&self) -> bool {
        self.0 == [0; N]
    }
}

impl<const N: usize> Semigroup for Sums<N> {
    #[inline]
    fn plus_equals(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

impl<const N: usize> Monoid for Sums<N> {
    fn zero() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> Abelian for Sums<N> {
    #[inline]
    fn negate(&mut self) {
        self.0 = self.0.map(|sum| -sum);
    }
}

impl<const N: usize> Multiply<Diff> for Sums<N> {
    type Output = Self;

    #[inline]
    fn multiply(self, times: &Diff) -> Self {
        Self(self.0.map(|sum| sum * *times as i64))
    }
}

impl<const N: usize> Serialize for Sums<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Sums<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sums = Vec::<i64>::deserialize(deserializer)?;
        sums.try_into().map(Self).map_err(|_| serde::de::Error::custom("another number of sums"))
    }
}
