//! Random numbers of the machine.

/// A random number: it has nothing to do with secrets, and is not likely to come twice.
pub fn random() -> u64 {
    // Of a random UUID's bits, the lower half has two that mean something.
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    high.rotate_left(32) ^ low
}
