//! Fibers: stacks that take turns on one thread. One gives way only where it waits, so what lies between two waits is
//! never interrupted. Who comes next is the scheduler's choice.

use std::cell::{Cell, RefCell};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a fiber's stack.
const STACK_LENGTH: usize = 256 << 10;
/// Stacks that are kept for the next fibers.
const STACKS_KEPT_MAX: usize = 256;

/// A fiber that waits for its turn.
pub(super) struct Fiber(Coroutine<(), (), (), DefaultStack>);

thread_local! {
    /// The way out of the fiber that runs.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

impl Fiber {
    /// A fiber that will run `body`.
    pub(super) fn new(body: impl FnOnce() + 'static) -> Self {
        let kept = STACKS.with_borrow_mut(Vec::pop);
        let stack = kept.unwrap_or_else(|| DefaultStack::new(STACK_LENGTH).expect("memory for a stack"));
        Self(Coroutine::with_stack(stack, move |yielder, ()| {
            RUNNING.set(yielder);
            body();
        }))
    }

    /// Lets it run until it waits (and gives it back) or ends.
    ///
    /// # Panics
    /// When it does.
    pub(super) fn run(mut self) -> Option<Self> {
        match self.0.resume(()) {
            CoroutineResult::Yield(()) => Some(self),
            CoroutineResult::Return(()) => {
                keep(self.0.into_stack());
                None
            }
        }
    }

    /// Ends it where it waits: what it owns is dropped.
    pub(super) fn end(mut self) {
        self.0.force_unwind();
        keep(self.0.into_stack());
    }
}

fn keep(stack: DefaultStack) {
    STACKS.with_borrow_mut(|stacks| {
        if stacks.len() < STACKS_KEPT_MAX {
            stacks.push(stack);
        }
    });
}

/// Gives way: returns when the fiber's next turn has come.
pub(super) fn give_way() {
    let yielder = RUNNING.get();
    assert!(!yielder.is_null(), "only a fiber can wait in a simulation");
    // SAFETY: it was set by the fiber that runs, when it began or its last turn came, and the yielder lives on that
    // fiber's own stack for as long as the fiber does.
    #[allow(unsafe_code)]
    unsafe {
        (*yielder).suspend(());
    }
    RUNNING.set(yielder);
}
