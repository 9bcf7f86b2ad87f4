//! Memory of large values that live for one step, used again: fresh memory costs a page fault every 4 KiB and is filled
//! with zeroes that nobody reads, a sixth of the time of training.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use half::bf16;

/// Bytes that buffers are aligned to: a cache line, so that registers of its size are loaded from one.
const LINE: usize = 64;

/// Values in memory that goes back to the pool of its type when they are dropped.
pub(crate) struct Buffer<T: Pooled> {
    /// As large as its class; only `len` from `start` on count.
    values: Vec<T>,
    start: usize,
    len: usize,
}

/// A type with a pool.
pub(crate) trait Pooled: Copy + Default + Send + 'static {
    /// The pool of the type.
    fn pool() -> &'static Mutex<Pool<Self>>;
}

macro_rules! pooled {
    ($type:ty) => {
        impl Pooled for $type {
            fn pool() -> &'static Mutex<Pool<Self>> {
                static POOL: Mutex<Pool<$type>> = Mutex::new(Pool::new());
                &POOL
            }
        }
    };
}

pooled!(f32);
pooled!(bf16);

/// What is free, and how much there is: the pool keeps no more than the most that was ever in use, and an eighth.
pub(crate) struct Pool<T> {
    free: Vec<Vec<T>>,
    free_values: usize,
    used_values: usize,
    most_used: usize,
}

impl<T: Pooled> Pool<T> {
    const fn new() -> Self {
        Self {
            free: Vec::new(),
            free_values: 0,
            used_values: 0,
            most_used: 0,
        }
    }

    /// The smallest free memory that holds `len` values and is no more than half as large again.
    fn take(&mut self, len: usize) -> Option<Vec<T>> {
        let fits = |values: &Vec<T>| (len..=len + len / 2).contains(&values.len());
        let free = self.free.iter().enumerate();
        let best = free
            .filter(|(_, values)| fits(values))
            .min_by_key(|(_, values)| values.len());
        let values = best.map(|(at, _)| at).map(|at| self.free.swap_remove(at))?;
        self.free_values -= values.len();
        self.count(values.len());
        Some(values)
    }

    /// Counts `len` values as used, and gives up what is then too much.
    fn count(&mut self, len: usize) {
        self.used_values += len;
        self.most_used = self.most_used.max(self.used_values);
        while self.used_values + self.free_values > self.most_used + self.most_used / 8 {
            let largest = self.free.iter().enumerate().max_by_key(|(_, v)| v.len());
            let Some(at) = largest.map(|(at, _)| at) else {
                return;
            };
            self.free_values -= self.free.swap_remove(at).len();
        }
    }

    fn put(&mut self, values: Vec<T>) {
        self.used_values -= values.len();
        self.free_values += values.len();
        self.free.push(values);
    }
}

impl<T: Pooled> Buffer<T> {
    /// `len` values that mean nothing yet.
    pub(crate) fn new(len: usize) -> Self {
        let mut pool = T::pool()
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        let slack = LINE / size_of::<T>();
        let values = pool.take(len + slack).unwrap_or_else(|| {
            // Classes an eighth apart: the steps of a run differ a little in their tokens.
            let step = (len / 8).max(1).next_power_of_two();
            let class = len.next_multiple_of(step) + slack;
            pool.count(class);
            vec![T::default(); class]
        });
        let start = values.as_ptr().align_offset(LINE);
        Self { values, start, len }
    }

    /// `values`, and zeroes up to `len`.
    pub(crate) fn padded(values: &[T], len: usize) -> Self {
        let mut buffer = Self::new(len);
        buffer[..values.len()].copy_from_slice(values);
        buffer[values.len()..].fill(T::default());
        buffer
    }

    /// Keeps the first `len` values.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<T: Pooled> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::padded(self, self.len)
    }
}

impl<T: Pooled> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.start..][..self.len]
    }
}

impl<T: Pooled> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..][..self.len]
    }
}

impl<T: Pooled> Drop for Buffer<T> {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        let mut pool = T::pool()
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        pool.put(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of its own: the tests of a process share the others.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Value(u8);

    pooled!(Value);

    #[test]
    fn memory_is_used_again_and_bounded() {
        let free = || Value::pool().lock().unwrap().free_values;
        let first = Buffer::<Value>::new(1000);
        let place = first.as_ptr();
        assert_eq!(place.addr() % LINE, 0);
        drop(first);
        let mut again = Buffer::<Value>::new(900);
        assert_eq!((again.as_ptr(), again.len()), (place, 900));
        again.fill(Value(7));
        let copy = Buffer::padded(&again[..5], 8);
        assert_eq!(copy[..], [7, 7, 7, 7, 7, 0, 0, 0].map(Value));
        assert_eq!(again.clone()[..], again[..]);
        again.truncate(3);
        assert_eq!(again[..], [Value(7); 3]);
        drop((again, copy));
        // Too small for it, and too much beside it.
        let large = Buffer::<Value>::new(100_000);
        let most = Value::pool().lock().unwrap().most_used;
        assert!(free() <= most / 8);
        drop(large);
        for len in [10, 300, 40_000, 90_000, 100_000] {
            drop(Buffer::<Value>::new(len));
            assert!(free() <= most + most / 8);
        }
        assert!(Buffer::<Value>::new(0).is_empty());
    }
}
