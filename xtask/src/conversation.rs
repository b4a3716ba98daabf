//! Requests of a guest to the outside while its job runs, as `ask N WHOM WORDS` on its output, and
//! the answers, `N STATUS` on its input. The requests themselves are the business of the jobs in
//! lab/.

use std::time::{Duration, Instant};

use crate::command::{Process, Step};

const LOOK: Duration = Duration::from_millis(10);
/// Time for one command of the program, on a machine with other work.
const WORD_LIMIT_S: u64 = 60;

/// Something a guest has asked for.
pub(crate) struct Ask<'a> {
    pub(crate) number: &'a str,
    pub(crate) whom: &'a str,
    pub(crate) words: Vec<&'a str>,
}

impl<'a> Ask<'a> {
    fn read(line: &'a str) -> Option<Ask<'a>> {
        let mut words = line.trim().strip_prefix("ask ")?.split_whitespace();
        Some(Ask { number: words.next()?, whom: words.next()?, words: words.collect() })
    }
}

/// Does what a guest asks for, until it ends. `answer` gives the status for the guest; its error ends the conversation.
pub(crate) fn answer_all(
    guest: &mut Process,
    limit: Duration,
    mut answer: impl FnMut(&Ask<'_>) -> Result<u8, String>,
) -> Result<(), String> {
    let end = Instant::now() + limit;
    let mut answered = 0;
    loop {
        let over = guest.has_ended();
        let output = guest.output();
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        let asks: Vec<Ask<'_>> = whole.lines().filter_map(Ask::read).skip(answered).collect();
        answered += asks.len();
        for ask in &asks {
            let status = answer(ask)?;
            println!("  {} {}: {status}", ask.whom, ask.words.join(" "));
            let line = format!("{} {status}", ask.number);
            guest.write_line(&line).map_err(|error| format!("the guest takes no input: {error}"))?;
        }
        if over {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(format!("the guest did not end within {} s", limit.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}

/// Gives the program a command line about the target at `control`, and its status to the guest.
pub(crate) fn administer(program: &str, control: &str, words: &[&str]) -> u8 {
    let args = [words, &["--control", control]].concat();
    let done = Step::new(program, &args).limit_s(WORD_LIMIT_S).run_quietly();
    if !done.passed {
        println!("{}", done.output);
    }
    u8::from(!done.passed)
}

/// Shows what a guest has measured, and says how much that is.
pub(crate) fn print_measurements(output: &str) -> usize {
    let times = output.lines().filter_map(|line| line.strip_prefix("measured: "));
    times.map(|time| println!("  {}", time.trim())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_asked_for() {
        let ask = Ask::read("ask 3 target namespace remove nqn 7").unwrap();
        assert_eq!((ask.number, ask.whom), ("3", "target"));
        assert_eq!(ask.words, ["namespace", "remove", "nqn", "7"]);
        assert!(Ask::read("ok connect").is_none() && Ask::read("ask 3").is_none());
    }

    #[test]
    fn answers_until_the_guest_ends() {
        let script =
            "echo ask 1 target a b; read -r one; echo ask 2 other c; read -r two; echo \"$one, $two\"";
        let mut guest = Process::start(&Step::new("sh", &["-c", script])).unwrap();
        let mut heard = Vec::new();
        let answered = answer_all(&mut guest, Duration::from_secs(60), |ask| {
            heard.push(format!("{} {}", ask.whom, ask.words.join(" ")));
            Ok(heard.len() as u8 - 1)
        });
        assert_eq!(answered, Ok(()));
        assert_eq!(heard, ["target a b", "other c"]);
        assert!(guest.wait(Duration::from_secs(60), false).is_some_and(|status| status.success()));
        assert!(guest.output().ends_with("1 0, 2 1\n"), "{}", guest.output());
    }
}
