//! One amount per dimension, beside each other in memory.

use std::ops::{Deref, DerefMut};

/// Dimensions that lie in the vector itself: CPU, memory, devices, pods, and three more. A cluster with more of them
/// keeps its amounts elsewhere.
const INLINE: usize = 7;

/// One amount per dimension.
#[derive(Clone, Debug)]
pub struct Vector(Amounts);

#[derive(Clone, Debug)]
enum Amounts {
    Inline(u8, [f64; INLINE]),
    Elsewhere(Box<[f64]>),
}

// === impl Vector ===

impl Vector {
    /// Nothing of so many dimensions.
    pub fn zero(dimensions: usize) -> Self {
        Self(match u8::try_from(dimensions) {
            Ok(len) if dimensions <= INLINE => Amounts::Inline(len, [0.0; INLINE]),
            _ => Amounts::Elsewhere(vec![0.0; dimensions].into_boxed_slice()),
        })
    }
}

impl Deref for Vector {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        match &self.0 {
            Amounts::Inline(len, amounts) => amounts.get(..usize::from(*len)).unwrap_or_default(),
            Amounts::Elsewhere(amounts) => amounts,
        }
    }
}

impl DerefMut for Vector {
    fn deref_mut(&mut self) -> &mut [f64] {
        match &mut self.0 {
            Amounts::Inline(len, amounts) => {
                amounts.get_mut(..usize::from(*len)).unwrap_or_default()
            }
            Amounts::Elsewhere(amounts) => amounts,
        }
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl FromIterator<f64> for Vector {
    fn from_iter<It: IntoIterator<Item = f64>>(amounts: It) -> Self {
        let amounts: Vec<f64> = amounts.into_iter().collect();
        let mut vector = Self::zero(amounts.len());
        vector.copy_from_slice(&amounts);
        vector
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_as_many_amounts_as_it_was_made_of_wherever_they_lie() {
        for dimensions in [0, 4, INLINE, INLINE + 1, 300] {
            assert_eq!(Vector::zero(dimensions).len(), dimensions);
            let mut vector: Vector = (0..dimensions).map(|i| i as f64).collect();
            assert!(vector.iter().enumerate().all(|(i, amount)| *amount == i as f64));
            let before = vector.clone();
            assert_eq!(vector, before);
            if let Some(last) = vector.last_mut() {
                *last += 1.0;
                assert_ne!(vector, before);
            }
        }
    }
}
