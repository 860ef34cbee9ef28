//! A binary heap whose order may change under it: only the top is ever put right.
//!
//! The orders of queues are not total (two queues of one age each come after the other), so no sort will do. The
//! sift steps are the textbook's; what they make of ties is part of the scheduler's order.

/// A binary heap.
#[derive(Clone, Debug)]
pub(super) struct Heap<T> {
    items: Vec<T>,
    capacity: Option<usize>,
}

// === impl Heap ===

impl<T> Heap<T> {
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Self { items: Vec::new(), capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn peek(&self) -> Option<&T> {
        self.items.first()
    }

    /// Adds an item. One that is too many goes: whichever is at the end of the array.
    pub(super) fn push(&mut self, item: T, less: impl Fn(&T, &T) -> bool) {
        self.items.push(item);
        self.up(self.items.len() - 1, &less);
        if let Some(capacity) = self.capacity
            && self.items.len() > capacity
        {
            self.items.pop();
        }
    }

    /// Takes the first item.
    pub(super) fn pop(&mut self, less: impl Fn(&T, &T) -> bool) -> Option<T> {
        if self.items.is_empty() {
            return None;
        }
        let last = self.items.len() - 1;
        self.items.swap(0, last);
        self.down(0, last, &less);
        self.items.pop()
    }

    /// Puts the top right.
    pub(super) fn fix_top(&mut self, less: impl Fn(&T, &T) -> bool) {
        self.down(0, self.items.len(), &less);
    }

    fn up(&mut self, mut at: usize, less: &impl Fn(&T, &T) -> bool) {
        while at > 0 {
            let parent = (at - 1) / 2;
            let (Some(item), Some(above)) = (self.items.get(at), self.items.get(parent)) else {
                return;
            };
            if !less(item, above) {
                return;
            }
            self.items.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize, end: usize, less: &impl Fn(&T, &T) -> bool) {
        loop {
            let left = 2 * at + 1;
            if left >= end {
                return;
            }
            let mut child = left;
            if left + 1 < end
                && let (Some(right), Some(it)) = (self.items.get(left + 1), self.items.get(left))
                && less(right, it)
            {
                child = left + 1;
            }
            let (Some(below), Some(item)) = (self.items.get(child), self.items.get(at)) else {
                return;
            };
            if !less(below, item) {
                return;
            }
            self.items.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_order() {
        let mut heap = Heap::new(None);
        for item in [5, 1, 4, 2, 3] {
            heap.push(item, |a, b| a < b);
        }
        let order: Vec<i32> = std::iter::from_fn(|| heap.pop(|a, b| a < b)).collect();
        assert_eq!(order, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn an_order_that_contradicts_itself_ends_all_the_same() {
        let mut heap = Heap::new(None);
        for item in 0..50 {
            heap.push(item, |_, _| true);
        }
        heap.fix_top(|_, _| true);
        assert_eq!(std::iter::from_fn(|| heap.pop(|_, _| true)).count(), 50);
    }

    #[test]
    fn a_full_heap_loses_the_end_of_its_array() {
        let mut heap = Heap::new(Some(2));
        for item in [3, 1, 2] {
            heap.push(item, |a, b| a < b);
        }
        assert_eq!((heap.len(), heap.peek()), (2, Some(&1)));
    }
}
