//! What goes from one process to the other beside a target, and is known to who runs it alone: locks of images in Ceph clusters,
//! and a gateway's part in its group. Each step comes at its place among the words of both processes.

use serde_json::Value;

/// The former process' side.
pub trait Lends {
    /// What the next process says of itself before it is ready.
    ///
    /// # Errors
    /// When it is not what it should be: this process goes on.
    fn introduced(&mut self, _said: Value) -> Result<(), String> {
        Ok(())
    }

    /// Nothing is decided from here on.
    ///
    /// # Errors
    /// When something is otherwise than it was offered: this process goes on.
    fn hold_still(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Lets go of it, since all rests; what the next process has to know.
    ///
    /// # Errors
    /// When it cannot: this process goes on.
    fn let_go(&mut self) -> Result<Value, String> {
        Ok(Value::Null)
    }

    /// Does no more: the next word is `Go`.
    fn rest(&mut self) {}

    /// Has it again, since the next process is not to serve. `has_refused` is whether that one has said so itself.
    fn take_back(&mut self, _has_refused: bool) {}

    /// Has it again after `Go`, since the next process does not serve: nobody knows what that one has done.
    fn begin_again(&mut self) {}

    /// The next process was told to serve, and does not say that it does.
    fn is_awaited(&mut self) {}

    /// The next process has it.
    fn leave(&mut self) {}
}

/// The next process' side.
pub trait Inherits {
    /// What the former process has to know of this one.
    ///
    /// # Errors
    /// When it does not know that itself.
    fn introduction(&mut self) -> Result<Option<Value>, String> {
        Ok(None)
    }

    /// Takes what the former process has let go of, before the hosts, which are told nothing of it.
    ///
    /// # Errors
    /// When it cannot: the former process goes on.
    fn take(&mut self, _lent: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Gives back what it has taken, if anything: the former process goes on with it, or nobody.
    fn give_back(&mut self) {}

    /// Goes on with what it has taken.
    ///
    /// # Errors
    /// When it cannot: the former process serves.
    fn go_on(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Nothing is beside it.
impl Lends for () {}
impl Inherits for () {}
