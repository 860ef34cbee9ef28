//! Dense ids, and tables that only an id of their own kind can index.
//!
//! Ids are made by the table's owner alone and name a row that exists, so a lookup cannot miss.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// A dense id.
pub trait Id: Copy {
    /// Row of the table that the id names.
    fn row(self) -> usize;
    /// The id of a row.
    fn of(row: usize) -> Self;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl Id for $name {
            fn row(self) -> usize {
                self.0 as usize
            }
            fn of(row: usize) -> Self {
                Self(row as u32)
            }
        }
    )*};
}

ids! {
    /// A node. The order of ids is the order of names.
    NodeId,
    /// A pod, by its row.
    TaskId,
    /// A pod group. The order of ids is the order of names.
    JobId,
    /// A queue. The order of ids is the order of names.
    QueueId,
    /// A leaf of a pod group's tree, among all of them.
    PodSetId,
    /// A shape of pods: same requests, same constraints.
    ClassId,
    /// A shared device.
    GroupId,
    /// A device that is claimed one by one.
    DeviceId,
    /// A claim of devices.
    ClaimId,
    /// A topology, by its row.
    TopologyId,
}

/// Rows by id.
#[derive(Clone, Debug)]
pub struct Table<I, T> {
    rows: Vec<T>,
    kind: PhantomData<I>,
}

// === impl Table ===

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self { rows: Vec::new(), kind: PhantomData }
    }
}

impl<I: Id, T> Table<I, T> {
    /// Adds a row.
    pub fn push(&mut self, row: T) -> I {
        self.rows.push(row);
        I::of(self.rows.len() - 1)
    }

    /// An empty table with room.
    pub fn with_capacity(rows: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), kind: PhantomData }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.rows.len()).map(I::of)
    }

    /// All rows, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.rows.iter()
    }

    /// All rows, in order, to change.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.rows.iter_mut()
    }

    /// All rows with their ids.
    pub fn entries(&self) -> impl Iterator<Item = (I, &T)> {
        self.rows.iter().enumerate().map(|(row, value)| (I::of(row), value))
    }

    /// A row, or none if the table is shorter than that.
    pub fn get(&self, id: I) -> Option<&T> {
        self.rows.get(id.row())
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(rows: It) -> Self {
        Self { rows: rows.into_iter().collect(), kind: PhantomData }
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.rows[id.row()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.rows[id.row()]
    }
}
