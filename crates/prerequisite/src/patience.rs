//! How long a test waits for what has to happen: one limit for all, so that a slow machine fails no test. It keeps out waiting that
//! is itself what a test checks.

use std::process::{Child, ExitStatus};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(1);

/// The limit of every wait: a minute, times the factor in `SELVEDGE_TEST_PATIENCE`.
///
/// # Panics
/// With a factor that is not a number from 1 to 1000.
pub fn patience() -> Duration {
    static PATIENCE: LazyLock<Duration> = LazyLock::new(|| {
        let factor = std::env::var("SELVEDGE_TEST_PATIENCE").map_or(1.0, |text| {
            let factor = text.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor));
            factor.unwrap_or_else(|| panic!("SELVEDGE_TEST_PATIENCE={text} is not a number from 1 to 1000"))
        });
        Duration::from_secs(60).mul_f64(factor)
    });
    *PATIENCE
}

/// A wait that a test makes itself, by turning a loop.
pub struct Wait<'a> {
    condition: &'a str,
    end: Instant,
}

impl<'a> Wait<'a> {
    /// Begins to wait.
    pub fn begin(condition: &'a str) -> Self {
        Self { condition, end: Instant::now() + patience() }
    }

    /// Fails the test when patience is at its end.
    ///
    /// # Panics
    /// Then.
    #[track_caller]
    pub fn check(&self) {
        assert!(Instant::now() < self.end, "{}: not within {:?}", self.condition, patience());
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// When it does not within the limit.
#[track_caller]
pub fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    wait_for(condition, || holds().then_some(()));
}

/// Waits until there is something to look at, and gives it.
///
/// # Panics
/// When there is nothing within the limit.
#[track_caller]
pub fn wait_for<T>(condition: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let wait = Wait::begin(condition);
    loop {
        match look() {
            Some(found) => return found,
            None => wait.check(),
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits for the end of a program that ends by itself; one that does not is killed.
///
/// # Panics
/// When it does not end within the limit.
#[track_caller]
pub fn wait_for_end(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + patience();
    loop {
        match child.try_wait().expect("a child of ours") {
            Some(status) => return status,
            None if Instant::now() < end => std::thread::sleep(LOOK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the program has not ended within {:?}", patience());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_comes_later_is_waited_for() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            looks.get()
        };
        wait_until("the third look", || look() == 3);
        assert_eq!(wait_for("the fifth look", || Some(look()).filter(|&count| count == 5)), 5);
    }

    #[test]
    fn patience_has_an_end_that_names_the_condition() {
        let wait = Wait { condition: "the moon falls", end: Instant::now() };
        let failed = std::panic::catch_unwind(|| wait.check()).unwrap_err();
        let message = failed.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("the moon falls: not within "), "{message}");
    }

    #[test]
    fn the_status_of_a_program_comes_with_its_end() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        assert_eq!(wait_for_end(&mut child).code(), Some(3));
    }
}
