//! Tasks that take longer than a request may: each on a thread of its own, with its progress for
//! the API. The work itself is its starter's.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::access::Identity;
use super::limits::{SHUTDOWN_TIMEOUT, TASKS_KEPT_MAX, TASKS_RESERVE, TASKS_RUNNING_MAX};
use super::refusal::Refusal;

/// A task, as it is at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
pub struct Task {
    /// Number of the task, from 1.
    pub id: u64,
    /// Kind of the work, in one word.
    pub what: String,
    /// To which image.
    pub image: String,
    pub state: TaskState,
    /// So much is done, of so much; nothing of nothing where that is not known.
    pub done: u64,
    pub total: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Running,
    Done,
    Failed,
}

/// Outcome of a task, as far as it is known when the wait for it ends.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    Failed(Refusal),
    Running(Task),
}

/// All tasks. Dropping it asks those that are under way to end, and waits for them for a while.
#[derive(Debug, Default)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    is_ending: bool,
    tasks: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    task: Task,
    caller: Identity,
    refusal: Option<Refusal>,
}

/// Handle by which a task's work reports its progress.
#[derive(Debug)]
pub(super) struct Progress {
    id: u64,
    shared: Arc<Shared>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Numbers are written whole; a thread that panicked in between has left nothing half.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&self, id: u64) -> Option<&Entry> {
        self.tasks.iter().find(|entry| entry.task.id == id)
    }

    fn running(&self) -> impl Iterator<Item = &Entry> {
        self.tasks.iter().filter(|entry| entry.task.state == TaskState::Running)
    }

    /// Number of tasks that may be under way for this caller to start another. A task is never ended for another one, so that the
    /// last places are for callers without any.
    fn running_max(&self, caller: &Identity) -> usize {
        let has_one = self.running().any(|entry| entry.caller == *caller);
        if has_one { TASKS_RUNNING_MAX - TASKS_RESERVE } else { TASKS_RUNNING_MAX }
    }
}

impl Progress {
    /// So much is done, of so much; whether to go on.
    pub(super) fn tell(&self, done: u64, total: u64) -> ControlFlow<()> {
        let mut state = self.shared.lock();
        if let Some(entry) = state.tasks.iter_mut().find(|entry| entry.task.id == self.id) {
            (entry.task.done, entry.task.total) = (done, total);
        }
        if state.is_ending { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Tasks {
    /// Starts to do `what` to `image` for a caller; one thing at a time is done to an image.
    pub(super) fn start(
        &self,
        caller: &Identity,
        what: &str,
        image: &str,
        work: impl FnOnce(&Progress) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<Task, Refusal> {
        let task = self.enter(caller, what, image)?;
        let progress = Progress { id: task.id, shared: self.shared.clone() };
        let run = move || {
            // A panic has to reach the waiting request like any other failure.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&progress)))
                .unwrap_or_else(|_| {
                    Err(Refusal::new(500, "internal error of the task; the log names the place"))
                });
            progress.shared.leave(progress.id, outcome);
        };
        if let Err(error) = std::thread::Builder::new().name("control-task".to_owned()).spawn(run) {
            let refusal = Refusal::new(500, format!("no thread for it: {error}"));
            self.shared.leave(task.id, Err(refusal.clone()));
            return Err(refusal);
        }
        Ok(task)
    }

    fn enter(&self, caller: &Identity, what: &str, image: &str) -> Result<Task, Refusal> {
        let mut state = self.shared.lock();
        if let Some(Entry { task: other, .. }) = state.running().find(|entry| entry.task.image == image) {
            let refusal = Refusal::conflict(format!("task {} is at {image}: {}", other.id, other.what));
            return Err(refusal.hint("wait until that is done"));
        }
        let running = state.running().count();
        if state.is_ending || running >= state.running_max(caller) {
            let refusal = Refusal::new(503, format!("{running} tasks are under way already"));
            return Err(refusal.hint("wait until one is done"));
        }
        let ended = |entry: &Entry| entry.task.state != TaskState::Running;
        if state.tasks.len() >= TASKS_KEPT_MAX
            && let Some(oldest) = state.tasks.iter().position(ended)
        {
            state.tasks.remove(oldest);
        }
        state.last_id += 1;
        let task = Task {
            id: state.last_id,
            what: what.to_owned(),
            image: image.to_owned(),
            state: TaskState::Running,
            done: 0,
            total: 0,
            error: None,
        };
        state.tasks.push(Entry { task: task.clone(), caller: caller.clone(), refusal: None });
        Ok(task)
    }

    /// Waits for a task, for `timeout` at most.
    pub(super) fn wait(&self, id: u64, timeout: Duration) -> Outcome {
        let is_running =
            |state: &mut State| state.entry(id).is_some_and(|entry| entry.task.state == TaskState::Running);
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), timeout, is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.entry(id) {
            Some(Entry { refusal: Some(refusal), .. }) => Outcome::Failed(refusal.clone()),
            Some(Entry { task, .. }) if task.state == TaskState::Running => Outcome::Running(task.clone()),
            // One that is forgotten has ended long ago.
            _ => Outcome::Done,
        }
    }

    /// A task, while it is remembered.
    pub(super) fn get(&self, id: u64) -> Option<Task> {
        self.shared.lock().entry(id).map(|entry| entry.task.clone())
    }

    /// All tasks that are under way, and the last ones that were.
    pub(super) fn list(&self) -> Vec<Task> {
        self.shared.lock().tasks.iter().map(|entry| entry.task.clone()).collect()
    }
}

impl Shared {
    fn leave(&self, id: u64, outcome: Result<(), Refusal>) {
        let mut state = self.lock();
        if let Some(entry) = state.tasks.iter_mut().find(|entry| entry.task.id == id) {
            match outcome {
                Ok(()) => {
                    entry.task.state = TaskState::Done;
                    entry.task.done = entry.task.total;
                }
                Err(refusal) => {
                    tracing::warn!(task = id, what = entry.task.what, %refusal, "a task failed");
                    entry.task.state = TaskState::Failed;
                    entry.task.error = Some(refusal.to_string());
                    entry.refusal = Some(refusal);
                }
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        let mut state = self.shared.lock();
        state.is_ending = true;
        while state.running().next().is_some() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use prerequisite::patience;
    use std::sync::mpsc::channel;

    use super::*;

    fn token(name: &str) -> Identity {
        Identity::Token(name.to_owned())
    }

    #[test]
    fn a_task_tells_how_far_it_is_and_how_it_ended() {
        let (tasks, caller) = (Tasks::default(), token("operator"));
        let ((go_on, may_go_on), (reported, hear)) = (channel::<()>(), channel());
        let task = tasks.start(&caller, "flatten", "rbd/a", move |progress| {
            let _ = progress.tell(1, 4);
            reported.send(()).unwrap();
            may_go_on.recv().unwrap();
            Ok(())
        });
        let id = task.unwrap().id;
        hear.recv().unwrap();
        let Outcome::Running(task) = tasks.wait(id, Duration::ZERO) else { panic!("it waits") };
        assert_eq!((task.state, task.done, task.total), (TaskState::Running, 1, 4));
        let refused = tasks.start(&caller, "flatten", "rbd/a", |_| Ok(())).unwrap_err();
        assert!(refused.status == 409 && refused.error.contains("task 1"), "{refused}");
        go_on.send(()).unwrap();
        assert!(matches!(tasks.wait(id, patience()), Outcome::Done));
        assert_eq!(tasks.get(id).map(|task| (task.state, task.done)), Some((TaskState::Done, 4)));
        let failing =
            tasks.start(&caller, "flatten", "rbd/a", |_| Err(Refusal::conflict("no clone"))).unwrap();
        let Outcome::Failed(refusal) = tasks.wait(failing.id, patience()) else { panic!("it fails") };
        assert_eq!(refusal.status, 409);
        assert_eq!(tasks.list()[1].error.as_deref(), Some("no clone"));
        let panicking = tasks.start(&caller, "flatten", "rbd/a", |_| panic!("on purpose")).unwrap();
        assert!(matches!(tasks.wait(panicking.id, patience()), Outcome::Failed(_)));
    }

    #[test]
    fn tasks_have_limits_and_end_with_the_program() {
        let (tasks, many) = (Tasks::default(), token("many"));
        for number in 0..TASKS_KEPT_MAX + 3 {
            let task = tasks.start(&many, "flatten", &format!("rbd/{number}"), |_| Ok(())).unwrap();
            assert!(matches!(tasks.wait(task.id, patience()), Outcome::Done));
        }
        assert_eq!((tasks.list().len(), tasks.get(1)), (TASKS_KEPT_MAX, None));
        let (begun, begins) = channel();
        let start = |caller: &Identity, number: usize| {
            let begun = begun.clone();
            let work = move |progress: &Progress| {
                begun.send(()).unwrap();
                while progress.tell(0, 1).is_continue() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Refusal::new(503, "ended"))
            };
            tasks.start(caller, "flatten", &format!("rbd/{number}"), work)
        };
        let of_many = TASKS_RUNNING_MAX - TASKS_RESERVE;
        for number in 0..of_many {
            start(&many, number).unwrap();
        }
        assert_eq!(start(&many, TASKS_RUNNING_MAX).unwrap_err().status, 503, "the rest is for others");
        for number in of_many..TASKS_RUNNING_MAX {
            let other = token(&format!("other-{number}"));
            start(&other, number).unwrap();
            assert_eq!(start(&other, TASKS_RUNNING_MAX).unwrap_err().status, 503, "it has one");
        }
        assert_eq!(start(&token("late"), TASKS_RUNNING_MAX).unwrap_err().status, 503);
        for _ in 0..TASKS_RUNNING_MAX {
            begins.recv().unwrap();
        }
        let shared = tasks.shared.clone();
        drop(tasks);
        assert_eq!(shared.lock().running().count(), 0);
    }
}
