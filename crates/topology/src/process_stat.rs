//! Numbers of a process in the system's own form, /proc/PID/stat. Which of them matter is for others to say.

/// The field that says when a process or thread began, in ticks since the machine did: one that has the same number later
/// began later.
pub const STARTED: usize = 22;
/// The processor that it ran on last.
pub const LAST_CPU: usize = 39;

/// A field of such a text, by its number in proc_pid_stat(5), which is 3 or more.
pub fn stat_field(text: &str, number: usize) -> Option<u64> {
    // The name, which is field 2, may have spaces and parentheses in it.
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_any_name() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 0 0 0 1 2 0 0 20 0 1 0 12345 100 200";
        assert_eq!(stat_field(text, STARTED), Some(12345));
        assert_eq!(stat_field(text, 4), Some(1));
        assert_eq!(stat_field(text, LAST_CPU), None);
        for nonsense in ["nonsense", "17 (a", "17 (a) S 1"] {
            assert_eq!(stat_field(nonsense, STARTED), None, "{nonsense}");
        }
    }

    #[test]
    fn the_fields_of_this_process_are_found() {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(stat_field(&text, STARTED) > Some(0));
        assert!(stat_field(&text, LAST_CPU).is_some());
    }
}
