//! State that the program migrates along with a target: locks of images in Ceph clusters, and
//! membership in a gateway group. Each step has its place in the sequence of messages between both
//! processes.

use serde_json::Value;

use crate::hand_over::HandOverError;

/// The old process' side.
pub trait Releases {
    /// Checks the new process's introduction before it is ready.
    ///
    /// # Errors
    /// When it is not what it should be: this process goes on.
    fn introduced(&mut self, _said: Value) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Makes no decisions from here on.
    ///
    /// # Errors
    /// When something is otherwise than it was offered: this process goes on.
    fn hold_still(&mut self) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Lets go of it, since all rests; what the new process has to know.
    ///
    /// # Errors
    /// When it cannot: this process goes on.
    fn let_go(&mut self) -> Result<Value, HandOverError> {
        Ok(Value::Null)
    }

    /// Does no more: the next word is `Go`.
    fn rest(&mut self) {}

    /// Has it again, since the new process is not to serve. `has_refused` is whether that one has
    /// said so itself.
    fn take_back(&mut self, _has_refused: bool) {}

    /// Takes the state back after `Go`, because the new process does not serve. What that process
    /// has done is unknown.
    fn begin_again(&mut self) {}

    /// The new process has received `Go`, and does not confirm that it serves.
    fn is_awaited(&mut self) {}

    /// The new process has it.
    fn leave(&mut self) {}
}

/// The new process' side.
pub trait TakesOver {
    /// Information about this process that the old one needs.
    ///
    /// # Errors
    /// When it does not know that itself.
    fn introduction(&mut self) -> Result<Option<Value>, HandOverError> {
        Ok(None)
    }

    /// Takes over the state that the old process has released. Comes before the hosts, which
    /// get no notice of it.
    ///
    /// # Errors
    /// When it cannot: the old process goes on.
    fn take(&mut self, _released: &Value) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Gives back the state that was taken, if any: either the old process continues with it,
    /// or no process does.
    fn give_back(&mut self) {}

    /// Goes on with what it has taken.
    ///
    /// # Errors
    /// When it cannot: the old process serves.
    fn go_on(&mut self) -> Result<(), HandOverError> {
        Ok(())
    }
}

/// A target without such state.
impl Releases for () {}
impl TakesOver for () {}
